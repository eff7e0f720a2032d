"""`kernel-env score`: fast_p, pass@k and means of runs, per level, each with its 95 % interval."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from .console import USAGE, err, fail, out

if TYPE_CHECKING:
    from kernel_env.toolkit.baselines import Baseline
    from kernel_env.toolkit.measures import Estimate
    from kernel_env.toolkit.score import Pick, Score
    from kernel_env.toolkit.sources import Run

Scored = tuple[str, "Score"]


def score(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, eval_results.json, event logs.")
    ],
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            help="A baseline_time_*.json or a folder of them; may be repeated. Measured times by default."
        ),
    ] = None,
    level: Annotated[int | None, typer.Option(help="Only this level; of a results file that names none.")] = None,
    p: Annotated[str, typer.Option(help="The p of fast_p, by commas.")] = "0,0.5,0.8,1,1.5,2",
    k: Annotated[str, typer.Option(help="The k of pass@k, by commas.")] = "1",
    samples: Annotated[str, typer.Option(help="first: number 0; best; every: their mean.")] = "first",
    attempted: Annotated[
        bool, typer.Option("--attempted", help="Rates over the run's own tasks, not those of the baseline file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list.")] = False,
) -> None:
    """Score runs against eager and compiled baselines, from KernelBench's files and from ours."""
    from kernel_env.toolkit import baselines, sources
    from kernel_env.toolkit.folder import FolderError
    from kernel_env.toolkit.logs import LogError
    from kernel_env.toolkit.results import ResultsError
    from kernel_env.toolkit.score import PICKS

    if samples not in PICKS:
        fail(f"--samples {samples!r} is not allowed; use one of: {', '.join(PICKS)}", USAGE)
    ps, ks = _numbers("--p", p, 0.0), [int(value) for value in _numbers("--k", k, 1.0)]
    try:
        files = [found for path in baseline or () for found in baselines.read(path)]
        runs = [sources.read(path, level) for path in paths]
    except (
        baselines.BaselineError,
        sources.SourceError,
        FolderError,
        LogError,
        ResultsError,
    ) as error:
        fail(error, USAGE)
    scored = _scores(runs, files, level, cast("Pick", samples), ps, ks, attempted)
    if not scored:
        fail("nothing to score: no result of this level, or none with a time; name --baseline", USAGE)
    if as_json:
        out.print(json.dumps([{"run": name, **dataclasses.asdict(found)} for name, found in scored]), markup=False)
        return
    for number in sorted({found.level for _, found in scored}):
        out.print(_table([(name, found) for name, found in scored if found.level == number], len(runs) > 1))
    _notes(runs, files, scored)


def _numbers(option: str, text: str, least: float) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= value < float("inf") for value in values):
        fail(f"{option} {text!r} is not allowed; give numbers from {least:g} on, by commas", USAGE)
    return values


def _scores(
    runs: Sequence[Run],
    files: Sequence[Baseline],
    level: int | None,
    pick: Pick,
    ps: Sequence[float],
    ks: Sequence[int],
    attempted: bool,
) -> list[Scored]:
    """Against each file that knows the level, and against what was measured beside the kernels."""
    from kernel_env.toolkit.score import levels, measured
    from kernel_env.toolkit.score import score as one

    scored: list[Scored] = []
    for run in runs:
        for number in levels(run.attempts) if level is None else [level]:
            known = [file for file in files if file.tasks(number)]
            tasks = None if attempted or not known else max(file.tasks(number) for file in known)
            own = [attempt for attempt in run.attempts if attempt.level == number]
            compared: list[Baseline | str] = [*known, *measured(own)]
            for against in compared:
                count = tasks if isinstance(against, str) or attempted else against.tasks(number)
                scored.append((run.name, one(own, number, against, pick, ps, ks, count)))
    return scored


def _table(scored: Sequence[Scored], several: bool) -> Table:
    first = scored[0][1]
    table = Table(title=f"level {first.level}, samples: {first.pick}", title_justify="left", box=None)
    table.add_column("")
    for name, found in scored:
        table.add_column(f"{name}\n{found.baseline}" if several else found.baseline, justify="right")
    for label, cells in _rows([found for _, found in scored]):
        table.add_row(label, *cells)
    return table


def _rows(scores: Sequence[Score]) -> list[tuple[str, list[str]]]:
    first = scores[0]
    rows: list[tuple[str, list[str]]] = [
        ("tasks", [f"{one.attempted} of {one.tasks}" for one in scores]),
        ("compiled", [_share(one.compiled) for one in scores]),
        ("correct", [_share(one.correct) for one in scores]),
    ]
    rows += [(f"fast_{p:g}", [_share(one.fast[p]) for one in scores]) for p in first.fast]
    rows += [
        ("geometric mean, correct", [_times(one.geometric_mean) for one in scores]),
        ("geometric mean, faster", [_times(one.geometric_mean_faster) for one in scores]),
        ("median, correct", [_times(one.median) for one in scores]),
    ]
    for k in first.short:
        rows.append((f"pass@{k}", [_share(one.pass_at.get(k)) for one in scores]))
        rows.append((f"fast_1@{k}", [_share(one.fast_1_at.get(k)) for one in scores]))
    return rows


def _share(found: Estimate | None) -> str:
    return "-" if found is None else f"{found.value:.3f}{_interval(found, '.3f')}"


def _times(found: Estimate | None) -> str:
    return "-" if found is None else f"{found.value:.3g}x{_interval(found, '.3g')}"


def _interval(found: Estimate, form: str) -> str:
    if found.low is None or found.high is None:
        return ""
    return f" [{format(found.low, form)}, {format(found.high, form)}]"


def _notes(runs: Sequence[Run], files: Sequence[Baseline], scored: Sequence[Scored]) -> None:
    """What a reader must know to trust the table."""
    from kernel_env.toolkit.baselines import FP32

    for run in runs:
        if any(attempt.mock for attempt in run.attempts):
            _note(f"{run.name}: times are fake, from the mock evaluator")
        hardware = sorted({a.hardware for a in run.attempts if a.hardware and a.runtime_ms})
        if len(hardware) > 1:
            _note(f"{run.name} ran on several devices, whose times don't compare: {', '.join(hardware)}")
        precisions = sorted({a.precision or FP32 for a in run.attempts})
        if len(precisions) > 1:
            _note(f"{run.name} holds results in {', '.join(precisions)}, which don't compare")
        for file in files:
            if set(precisions) != set(file.precisions):
                _note(f"{run.name} ran in {', '.join(precisions)}, {file.name} in {', '.join(file.precisions)}")
            if hardware and file.hardware and set(hardware) != set(file.hardware):
                _note(f"{run.name} ran on {', '.join(hardware)}, {file.name} on {', '.join(file.hardware)}")
    for name, found in scored:
        if found.untimed:
            _note(f"{name}, {found.baseline}: {found.untimed} correct samples have no time: in no fast_p")
        if found.left_out:
            _note(f"{name}, {found.baseline}: {found.left_out} samples of tasks that it doesn't know are left out")
        for k, count in found.short.items():
            if count:
                _note(f"{name}: {count} tasks have fewer than {k} samples and are left out of pass@{k}")
    if not files:
        _note("no baseline file: rates are over the tasks of the run, not over the whole level")


def _note(text: str) -> None:
    err.print(text, style="yellow", markup=False)
