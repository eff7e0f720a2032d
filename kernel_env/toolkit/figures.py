"""The report's figures, by matplotlib, as SVG to stand inside a page. No figure of nothing: None instead.

Texts come from files that models may have named, so matplotlib's own markup is off and its SVG escapes them. The
same data give the same bytes.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .attempt import Attempt

if TYPE_CHECKING:
    from kernel_env.server.peaks import Peak

# Okabe and Ito's palette, told apart by the colour-blind too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STAGES = ("passed", "timing", "correctness", "compile", "format")
STAGE_COLORS = {
    "passed": "#009E73",
    "timing": "#56B4E9",
    "correctness": "#E69F00",
    "compile": "#D55E00",
    "format": "#7F7F7F",
}
WIDTH = 9.0
MOST_TASKS = 300
LEAST_INTENSITY = 0.02
CURVE = tuple(2.0 ** (step / 24) for step in range(-72, 97))
_STYLE = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "kernel_env",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Series:
    """One run in a figure."""

    name: str
    attempts: Sequence[Attempt]


def fast_curves(curves: Mapping[str, Sequence[float]]) -> str | None:
    """fast_p over p; by name, its values at `CURVE`."""
    if not curves:
        return None
    with _axes(3.6) as (axes, done):
        for color, (name, values) in zip(_colors(), curves.items(), strict=False):
            axes.step(CURVE, values, color=color, label=name, where="post")
        axes.set_xscale("log", base=2)
        _plain_ticks(axes.xaxis, (0.125, 0.25, 0.5, 1, 2, 4, 8, 16))
        axes.axvline(1.0, color="#999999", linewidth=0.8)
        axes.set(xlabel="p, times as fast as the baseline", ylabel="fast_p", ylim=(0, 1.02))
        axes.legend(loc="upper right")
    return done()


def speedups(series: Sequence[Series]) -> str | None:
    """The fastest right kernel of each task, with its own interval where it was measured."""
    best = [(one.name, best_of_tasks(one.attempts)) for one in series]
    tasks = sorted({task for _, found in best for task in found}, key=lambda task: _fastest(best, task))
    tasks = tasks[-MOST_TASKS:]
    if not tasks:
        return None
    with _axes(1.2 + 0.2 * len(tasks)) as (axes, done):
        rows = {task: row for row, task in enumerate(tasks)}
        for index, (color, (name, found)) in enumerate(zip(_colors(), best, strict=False)):
            shown = [task for task in tasks if task in found]
            values = [found[task].speedup or 0.0 for task in shown]
            ends = [[abs(values[at] - end) for at, end in enumerate(_ends(found, shown, side))] for side in (0, 1)]
            heights = [rows[task] + 0.22 * (index - (len(best) - 1) / 2) for task in shown]
            axes.errorbar(values, heights, xerr=ends, fmt="o", color=color, markersize=4, label=name, linewidth=1)
        axes.set_yticks(range(len(tasks)), [task[:60] for task in tasks])
        axes.set_xscale("log", base=2)
        _number_ticks(axes.xaxis)
        axes.axvline(1.0, color="#999999", linewidth=0.8)
        axes.set(xlabel="times as fast as the reference, 95 % interval", ylim=(-0.7, len(tasks) - 0.3))
        if len(series) > 1:
            axes.legend(loc="lower right")
    return done()


def roofline(series: Sequence[Series], rates: Peak) -> str | None:
    """Every timed kernel on a device of these peaks: how far below the roof is what it does not reach."""
    placed = [(one.name, [place for a in one.attempts if (place := _placed(a, rates))]) for one in series]
    if not any(points for _, points in placed):
        return None
    with _axes(4.2) as (axes, done):
        span = [LEAST_INTENSITY * 1.15**step for step in range(100)]
        for roof, label, dash in ((rates.tf32, "TF32", "-"), (rates.half, "16 bits", "--")):
            heights = [min(roof, x * rates.bandwidth / 1e3) for x in span]
            axes.plot(span, heights, color="#555555", linestyle=dash, linewidth=1, label=f"roof, {label}")
        for color, (name, points) in zip(_colors(), placed, strict=False):
            at, heights = [x for x, _ in points], [y for _, y in points]
            axes.scatter(at, heights, s=16, color=color, alpha=0.7, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _number_ticks(axes.xaxis)
        _number_ticks(axes.yaxis)
        axes.set(xlabel="arithmetic intensity of the task, FLOP a byte", ylabel="TFLOP/s")
        axes.legend(loc="lower right")
    return done()


def outcomes(series: Sequence[Series]) -> str | None:
    """How far the submissions of each run got."""
    if not any(one.attempts for one in series):
        return None
    with _axes(1.1 + 0.35 * len(series)) as (axes, done):
        names = [one.name for one in series][::-1]
        lefts = [0.0] * len(names)
        for stage in STAGES:
            shares = [_share(one.attempts, stage) for one in series][::-1]
            axes.barh(names, shares, left=lefts, color=STAGE_COLORS[stage], label=stage)
            lefts = [left + share for left, share in zip(lefts, shares, strict=True)]
        axes.set(xlabel="share of the submissions", xlim=(0, 1))
        axes.legend(ncols=len(STAGES), loc="lower left", bbox_to_anchor=(0, 1))
    return done()


def learning(attempts: Sequence[Attempt], bins: int = 60) -> str | None:
    """Stages and mean reward over the submissions of a log, in order; None of fewer than twenty."""
    if len(attempts) < 20:
        return None
    size = max(5, -(-len(attempts) // bins))
    groups = [attempts[start : start + size] for start in range(0, len(attempts), size)]
    middles = [start + len(group) / 2 for start, group in zip(range(0, len(attempts), size), groups, strict=True)]
    with _axes(3.6) as (axes, done):
        shares = [[_share(group, stage) for group in groups] for stage in STAGES]
        colors = [STAGE_COLORS[stage] for stage in STAGES]
        axes.stackplot(middles, shares, colors=colors, labels=STAGES, alpha=0.45, linewidth=0)
        axes.set(xlabel=f"submission, in groups of {size}", ylabel="share by stage")
        axes.set(ylim=(0, 1), xlim=(0, len(attempts)))
        rewards = [[a.reward for a in group if a.reward is not None] for group in groups]
        if any(rewards):
            other = axes.twinx()
            known = [(at, statistics.fmean(found)) for at, found in zip(middles, rewards, strict=True) if found]
            at, means = [x for x, _ in known], [y for _, y in known]
            other.plot(at, means, color="#000000", linewidth=1.5, label="mean reward")
            other.set(ylabel="mean reward", ylim=(0, None))
            other.grid(visible=False)
            other.legend(loc="lower right", bbox_to_anchor=(1, 1))
        axes.legend(ncols=len(STAGES), loc="lower left", bbox_to_anchor=(0, 1))
    return done()


def versus(first: Series, second: Series) -> str | None:
    """Two runs, a point for each task that both have a time for."""
    ones, others = best_of_tasks(first.attempts), best_of_tasks(second.attempts)
    pairs = [(ones[task].speedup, others[task].speedup) for task in ones if task in others]
    if not pairs:
        return None
    with _axes(4.6) as (axes, done):
        axes.scatter([x for x, _ in pairs], [y for _, y in pairs], s=18, color=COLORS[0], alpha=0.7)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        _number_ticks(axes.xaxis)
        _number_ticks(axes.yaxis)
        axes.axline((1, 1), (2, 2), color="#999999", linewidth=0.8)
        axes.set(xlabel=f"speedup, {first.name}", ylabel=f"speedup, {second.name}")
    return done()


def best_of_tasks(attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The fastest right and timed attempt of each task, by its name."""
    best: dict[str, Attempt] = {}
    for attempt in attempts:
        name = attempt.task_id or f"level{attempt.level}/{attempt.problem}"
        known = best.get(name)
        if attempt.correct and attempt.speedup and (known is None or attempt.speedup > (known.speedup or 0.0)):
            best[name] = attempt
    return best


def _fastest(best: Sequence[tuple[str, Mapping[str, Attempt]]], task: str) -> tuple[float, str]:
    return max(found[task].speedup or 0.0 for _, found in best if task in found), task


def _ends(found: Mapping[str, Attempt], tasks: Sequence[str], side: int) -> list[float]:
    ends = [(found[task].speedup_low, found[task].speedup_high)[side] for task in tasks]
    return [found[task].speedup or 0.0 if end is None else end for task, end in zip(tasks, ends, strict=True)]


def _placed(attempt: Attempt, rates: Peak) -> tuple[float, float] | None:
    """Intensity and TFLOP/s: the roof above the task times the fraction that the kernel reaches of it.

    A task whose FLOPs are not counted (no product, convolution or attention) stands at the left edge.
    """
    fraction = attempt.roofline_fraction
    if not attempt.correct or fraction is None or attempt.arithmetic_intensity is None:
        return None
    at = max(attempt.arithmetic_intensity, LEAST_INTENSITY)
    slope = at * rates.bandwidth / 1e3
    peak = rates.half if attempt.precision in ("fp16", "bf16") else rates.tf32
    roof = slope if attempt.bound == "memory" else min(slope, peak)
    return at, roof * fraction


def _share(attempts: Sequence[Attempt], stage: str) -> float:
    return sum(attempt.stage == stage for attempt in attempts) / len(attempts) if attempts else 0.0


def _colors() -> Iterator[str]:
    while True:
        yield from COLORS


def _plain_ticks(axis: Any, values: Sequence[float]) -> None:
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_minor_locator(_ticker().NullLocator())


def _number_ticks(axis: Any) -> None:
    axis.set_major_formatter(_ticker().FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(_ticker().NullLocator())


def _ticker() -> Any:
    from matplotlib import ticker

    return ticker


@contextmanager
def _axes(height: float) -> Iterator[tuple[Any, Callable[[], str]]]:
    """Axes to draw on, and what gives their SVG once the block is done."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    drawn: list[str] = []
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        canvas = FigureCanvasSVG(figure)
        yield figure.subplots(), lambda: drawn[0]
        buffer = io.StringIO()
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
        drawn.append(_inline(buffer.getvalue()))


def _inline(svg: str) -> str:
    """Without the prologue of a file of its own."""
    return svg[svg.index("<svg") :]
