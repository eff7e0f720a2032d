"""`kernel-env report`: runs and logs as one HTML file; `kernel-env export`: right submissions as SFT data."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .console import USAGE, err, fail, out, progress, settings_from

if TYPE_CHECKING:
    from kernel_env.toolkit.score import Pick
    from kernel_env.toolkit.sources import Run

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="LOG...", help="Event logs (KERNEL_ENV_EVAL_LOG), run directories, eval_results.json."),
]
Level = Annotated[int | None, typer.Option(help="Of results files that name none.")]


def report(
    paths: Paths,
    file: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    baseline: Annotated[
        list[Path] | None, typer.Option(help="A baseline_time_*.json or a folder of them; may be repeated.")
    ] = None,
    level: Level = None,
    samples: Annotated[str, typer.Option(help="Of each task: first: number 0; best; every.")] = "best",
) -> None:
    """Make a page of scores, figures, outcomes and flagged submissions; of two runs, also a comparison."""
    from kernel_env.toolkit import baselines
    from kernel_env.toolkit.folder import write_whole
    from kernel_env.toolkit.report import render
    from kernel_env.toolkit.score import PICKS

    if samples not in PICKS:
        fail(f"--samples {samples!r} is not allowed; use one of: {', '.join(PICKS)}", USAGE)
    if importlib.util.find_spec("matplotlib") is None:
        fail("a report needs the extra toolkit: pip install 'openenv-kernel_env[toolkit]'", USAGE)
    peaks = settings_from({}).peaks
    runs = _read(paths, level)
    try:
        files = [found for path in baseline or () for found in baselines.read(path)]
        with progress("Drawing"):
            page = render(runs, files, cast("Pick", samples), peaks)
        write_whole(file, page.encode("utf-8", "replace").decode())
    except (baselines.BaselineError, OSError) as error:
        fail(error, USAGE)
    out.print(f"{file}: {sum(len(run.attempts) for run in runs)} submissions", markup=False)


def export(
    paths: Paths,
    file: Annotated[Path, typer.Option("--out", "-o", help="JSON lines.")] = Path("sft.jsonl"),
    speedup: Annotated[float | None, typer.Option(min=0.0, help="Only those at least this fast.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="At most so many of each task, the fastest.")] = None,
    level: Level = None,
) -> None:
    """Write right submissions with their problems as chat messages, for SFT."""
    from kernel_env.toolkit.export import Choice
    from kernel_env.toolkit.export import export as exported
    from kernel_env.toolkit.folder import write_whole

    runs = _read(paths, level)
    found = exported([attempt for run in runs for attempt in run.attempts], Choice(speedup, best))
    if found.no_text:
        err.print(
            f"{found.no_text} right submissions are left out: their code or problem is not there;"
            " serve with KERNEL_ENV_EVAL_LOG_CODE=true, or name run directories that `kernel-env generate` made",
            style="yellow",
            markup=False,
        )
    if not found.lines:
        fail("no right submission with its code and problem among these", 1)
    try:
        write_whole(file, "".join(json.dumps(line) + "\n" for line in found.lines))
    except OSError as error:
        fail(error, USAGE)
    told = f"{found.repeated} repeated and {found.slow} not chosen were left out"
    out.print(f"{file}: {len(found.lines)} examples; {told}", markup=False)


def _read(paths: list[Path], level: int | None) -> list[Run]:
    """With names that tell them apart."""
    from dataclasses import replace

    from kernel_env.toolkit import sources
    from kernel_env.toolkit.folder import FolderError
    from kernel_env.toolkit.logs import LogError
    from kernel_env.toolkit.results import ResultsError

    try:
        runs = [sources.read(path, level) for path in paths]
    except (sources.SourceError, FolderError, LogError, ResultsError) as error:
        fail(error, USAGE)
    if len({run.name for run in runs}) < len(runs):
        runs = [replace(run, name=str(path)) for run, path in zip(runs, paths, strict=True)]
    return runs
