"""`report.html`: runs as one file that needs nothing else: no script, no network; its own policy forbids both.

Everything in it that a model wrote is escaped: by the template engine in the text, by matplotlib in the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from . import figures
from .attempt import Attempt
from .baselines import FP32, Baseline
from .comparison import compare
from .figures import Series
from .measures import Estimate
from .score import Pick, Score, curve, levels, measured, score
from .sources import Run

if TYPE_CHECKING:
    from kernel_env.server.peaks import Peak

PS = (0.0, 0.5, 1.0, 1.5, 2.0)
MOST_FLAGGED = 200
MOST_CODE = 20_000
# Refusals for a submission's form; any other rule stands for a way round the task.
FORM = frozenset({"encoding", "size", "nesting", "syntax", "model-missing", "model-base", "model-forward"})


@dataclass(frozen=True)
class Flag:
    """A way round the task, how many attempts took it, and `MOST_FLAGGED` of these."""

    name: str
    count: int
    attempts: Sequence[Attempt]


def render(runs: Sequence[Run], baselines: Sequence[Baseline], pick: Pick, supplied: Peak | None = None) -> str:
    """The page. `supplied` are peak rates for devices whose own are not known. Raises ImportError."""
    series = [Series(run.name, [_with_speedup(a, baselines) for a in run.attempts]) for run in runs]
    scores = [(run.name, found) for run in runs for found, _ in _scores(run.attempts, baselines, pick)]
    environment = _environment()
    return str(
        environment.get_template("report.html").render(
            runs=[_about(run) for run in runs],
            scores=scores,
            ps=PS,
            curves=figures.fast_curves(_curves(runs, baselines, pick)),
            speedups=figures.speedups(series),
            rooflines=_rooflines(series, supplied),
            outcomes=figures.outcomes(series),
            kinds=_kinds(runs),
            learning=[(run.name, figures.learning(run.attempts)) for run in runs if _ordered(run)],
            flags=[(run.name, flagged(run.attempts)) for run in runs],
            comparison=compare(series[0].attempts, series[1].attempts) if len(series) == 2 else None,
            versus=figures.versus(*series) if len(series) == 2 else None,
            most_code=MOST_CODE,
        )
    )


def flagged(attempts: Sequence[Attempt]) -> list[Flag]:
    """Refusals for more than form, impossible times, and outputs that were wrong only when they were timed."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        name = _flag(attempt)
        if name:
            groups.setdefault(name, []).append(attempt)
    flags = [Flag(name, len(found), found[:MOST_FLAGGED]) for name, found in groups.items()]
    return sorted(flags, key=lambda flag: (-flag.count, flag.name))


def _flag(attempt: Attempt) -> str:
    if attempt.outcome == "rejected" and attempt.rule not in FORM:
        return attempt.rule or "rejected"
    if attempt.outcome == "impossible_timing":
        return "impossible time"
    if attempt.outcome == "wrong_output" and attempt.stage == "timing":
        return "wrong when timed"
    return ""


def _about(run: Run) -> dict[str, Any]:
    times = sorted(attempt.time for attempt in run.attempts if attempt.time)
    return {
        "name": run.name,
        "attempts": len(run.attempts),
        "tasks": len({(a.level, a.problem, a.task_id) for a in run.attempts}),
        "hardware": ", ".join(sorted({a.hardware for a in run.attempts if a.hardware})) or "not said",
        "precision": ", ".join(sorted({a.precision or FP32 for a in run.attempts})) or "not said",
        "span": f"{times[0]} to {times[-1]}" if times else "not said",
        "faults": len(run.faults),
        "unreadable": run.unreadable,
        "mock": any(attempt.mock for attempt in run.attempts),
    }


def _scores(
    attempts: Sequence[Attempt], baselines: Sequence[Baseline], pick: Pick
) -> list[tuple[Score, Baseline | str]]:
    """With what each is against."""
    found = []
    for level in levels(attempts):
        own = [attempt for attempt in attempts if attempt.level == level]
        known: list[Baseline | str] = [file for file in baselines if file.tasks(level)]
        for against in (*known, *measured(own)):
            tasks = against.tasks(level) if isinstance(against, Baseline) else None
            found.append((score(own, level, against, pick, PS, [], tasks), against))
    return found


def _curves(runs: Sequence[Run], baselines: Sequence[Baseline], pick: Pick) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {}
    for run in runs:
        for found, against in _scores(run.attempts, baselines, pick):
            values = curve(run.attempts, found, against, figures.CURVE)
            if values is not None:
                curves[f"{run.name}, level {found.level}, {found.baseline}"] = values
    return curves


def _rooflines(series: Sequence[Series], supplied: Peak | None) -> list[tuple[str, str | None]]:
    """By device; None where its peaks are not known."""
    from kernel_env.server.peaks import peak

    devices = sorted({a.hardware for one in series for a in one.attempts if a.runtime_ms and a.hardware})
    drawn: list[tuple[str, str | None]] = []
    for device in devices:
        rates = supplied or peak(device)
        own = [Series(one.name, [a for a in one.attempts if a.hardware == device]) for one in series]
        drawn.append((device, figures.roofline(own, rates) if rates else None))
    return drawn


def _kinds(runs: Sequence[Run]) -> list[tuple[str, list[int]]]:
    """How often each outcome came, by run."""
    counts = [Counter(attempt.outcome or attempt.stage for attempt in run.attempts) for run in runs]
    names = sorted({name for count in counts for name in count}, key=lambda name: -sum(c[name] for c in counts))
    return [(name, [count[name] for count in counts]) for name in names]


def _ordered(run: Run) -> bool:
    """A log has an order that means something; the files of a run directory have none."""
    return any(attempt.episode for attempt in run.attempts)


def _with_speedup(attempt: Attempt, baselines: Sequence[Baseline]) -> Attempt:
    """One that was not measured side by side has that over the first file which knows its task."""
    if attempt.speedup is not None or not attempt.runtime_ms:
        return attempt
    where = attempt.level, attempt.problem
    mean = next((file.means[where] for file in baselines if where in file.means), None)
    return attempt if mean is None else replace(attempt, speedup=mean / attempt.runtime_ms)


def _environment() -> Any:
    from jinja2 import BaseLoader, Environment, StrictUndefined

    class Package(BaseLoader):
        def get_source(self, environment: Environment, template: str) -> tuple[str, str, Any]:
            source = resources.files("kernel_env").joinpath("toolkit", template).read_text(encoding="utf-8")
            return source, template, lambda: True

    environment = Environment(loader=Package(), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["times"] = _times
    return environment


def _times(found: Estimate | None) -> str:
    """A mean with its interval, in a sentence."""
    if found is None:
        return "-"
    interval = "" if found.low is None else f" (95 % interval {found.low:.3g} to {found.high:.3g})"
    return f"{found.value:.3g}{interval}"
