"""Our runtimes beside `triton.testing.do_bench`'s: `python -m benchmarks.agreement`.

README.md explains the columns. Each kernel is evaluated through the whole path, then timed in a process of its
own that knows nothing of the environment (see `bare`), in turn, a few times.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .alone import alone
from .cases import LONG_MS, Case
from .evaluations import (
    DeviceError,
    Limit,
    Result,
    as_rows,
    bench,
    natural,
    options,
    pick,
    progress,
    settings_of,
    told,
)
from .tables import NONE, digits, mark, percent, table

TARGET = 0.02


@dataclass(frozen=True)
class Pair:
    """One evaluation, and the time of the kernel by itself or why there is none."""

    ours: Result
    bare_ms: float | None
    message: str = ""


@dataclass(frozen=True)
class Summary:
    """Medians in ms over the pairs of one kernel; `ratio` is ours over the other's."""

    case: str
    pairs: int
    runtime_ms: float | None
    bare_ms: float | None
    ratio: float | None
    clock: str | None
    launch_bound: bool | None

    @property
    def target(self) -> float | None:
        """How far from one the ratio may be; None where nothing is asked: of short kernels, and without a GPU."""
        if self.bare_ms is None or self.bare_ms < LONG_MS or self.clock in ("wall", "mock"):
            return None
        return TARGET

    @property
    def off(self) -> bool:
        return self.target is not None and self.ratio is not None and abs(self.ratio - 1.0) > self.target


def main() -> None:
    given = _options()
    try:
        complete = asyncio.run(_measure(given))
    except DeviceError as error:
        sys.exit(f"agreement: {error}")
    sys.exit(0 if complete else 1)


async def _measure(given: argparse.Namespace) -> bool:
    settings = settings_of(given)
    limit, pairs = Limit(given.seconds), list[Pair]()
    async with bench(settings, single=True) as ready:
        device = "cuda" if ready.device.kind == "cuda" else "cpu"
        chosen = pick(ready.device, settings, given)
        for number in range(given.evaluations):
            if number and limit.passed:
                break
            for case in chosen:
                ours = await ready.evaluate(case)
                bare_ms, message = await bare(case, device, ready.device.index)
                pairs.append(Pair(ours, bare_ms, message))
                alone = "failed" if bare_ms is None else f"{bare_ms:.4g} ms"
                progress(f"{number + 1} of {given.evaluations}  {told(ours)}; by itself {alone}")
            ready.write(
                given.json,
                summaries=[asdict(one) for one in summarize(pairs)],
                evaluations=as_rows([pair.ours for pair in pairs]),
                bare_ms=[pair.bare_ms for pair in pairs],
            )
    print(f"\n{report(summarize(pairs))}")
    faults = [fault for pair in pairs for fault in _faults(pair)]
    print(*faults, sep="\n")
    return not faults


async def bare(case: Case, device: str, index: str) -> tuple[float | None, str]:
    """The median by `bare` in a process of its own, and why there is none."""
    environ = {"CUDA_VISIBLE_DEVICES": index} if device == "cuda" else {"TRITON_INTERPRET": "1"}
    found, message = await alone("bare", case, device, **environ)
    return (None if found is None else float(found["runtime_ms"])), message


def _faults(pair: Pair) -> list[str]:
    faults = []
    if pair.ours.verdict != "passed":
        faults.append(f"{pair.ours.case}: {pair.ours.verdict}: {pair.ours.message[:300]}")
    if pair.bare_ms is None:
        faults.append(f"{pair.ours.case}, by itself: {pair.message}")
    return faults


def summarize(pairs: Sequence[Pair]) -> list[Summary]:
    """One summary for each kernel, in the order of their first evaluations."""
    names = dict.fromkeys(pair.ours.case for pair in pairs)
    return [_summary([pair for pair in pairs if pair.ours.case == name]) for name in names]


def _summary(pairs: Sequence[Pair]) -> Summary:
    ours = [pair.ours.runtime_ms for pair in pairs if pair.ours.runtime_ms is not None]
    others = [pair.bare_ms for pair in pairs if pair.bare_ms is not None]
    runtime_ms = statistics.median(ours) if ours else None
    bare_ms = statistics.median(others) if others else None
    bound = [pair.ours.launch_bound for pair in pairs if pair.ours.launch_bound is not None]
    return Summary(
        case=pairs[0].ours.case,
        pairs=len(pairs),
        runtime_ms=runtime_ms,
        bare_ms=bare_ms,
        ratio=None if runtime_ms is None or bare_ms is None else runtime_ms / bare_ms,
        clock="/".join(sorted({pair.ours.clock for pair in pairs if pair.ours.clock})) or None,
        launch_bound=any(bound) if bound else None,
    )


def report(summaries: Sequence[Summary]) -> str:
    header = ["kernel", "pairs", "ours ms", "by itself ms", "ratio", "off by %", "target %", "", "clock", "launch"]
    rows = [
        [
            one.case,
            str(one.pairs),
            digits(one.runtime_ms),
            digits(one.bare_ms),
            NONE if one.ratio is None else f"{one.ratio:.4f}",
            percent(None if one.ratio is None else one.ratio - 1.0),
            NONE if one.target is None else f"{100 * one.target:.0f}",
            "over" if one.off else "",
            one.clock or NONE,
            mark(one.launch_bound),
        ]
        for one in summaries
    ]
    return table(header, rows)


def _options() -> argparse.Namespace:
    parser = options("agreement", __doc__)
    parser.add_argument("--evaluations", type=natural, default=3, help="of each kernel, 3 by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
