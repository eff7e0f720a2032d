"""How far apart evaluations of one kernel lie: `python -m benchmarks.repeatability`.

README.md explains the columns. Every round evaluates each kernel once, through the whole path, so that a drift
of the machine shows as spread. With `--busy N` there are as many rounds again while N processes keep cores busy.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .busy import busy
from .cases import LONG_MS, Case
from .evaluations import (
    Bench,
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

TARGETS = {False: (0.03, 0.01), True: (0.05, 0.02)}


@dataclass(frozen=True)
class Summary:
    """Several evaluations of a kernel: medians; `spread` is (max - min) / median, all of it relative.

    `deviation` is the relative standard deviation of the speedup, None for one evaluation; `claim` the median
    width of the intervals, and `held` the share of them that hold the median speedup.
    """

    case: str
    evaluations: int
    passed: int
    seconds: float
    runtime_ms: float | None = None
    runtime_spread: float | None = None
    speedup: float | None = None
    spread: float | None = None
    deviation: float | None = None
    claim: float | None = None
    held: float | None = None
    samples: float | None = None
    clock: str | None = None
    launch_bound: bool | None = None


def main() -> None:
    given = _options()
    try:
        passed = asyncio.run(_measure(given))
    except DeviceError as error:
        sys.exit(f"repeatability: {error}")
    sys.exit(0 if passed else 1)


async def _measure(given: argparse.Namespace) -> bool:
    settings = settings_of(given)
    async with bench(settings, single=True) as ready:
        chosen = pick(ready.device, settings, given)
        quiet = await _rounds(ready, chosen, given, "quiet", [])
        loud: list[Result] = []
        if given.busy:
            with busy(given.busy):
                loud = await _rounds(ready, chosen, given, "busy", quiet)
    tables = [summarize(quiet), *([summarize(loud)] if given.busy else [])]
    print(f"\n{report(*tables)}")
    for result in [*quiet, *loud]:
        if result.verdict != "passed":
            print(f"{result.case}: {result.verdict}: {result.message[:300]}")
    return all(result.verdict == "passed" for result in [*quiet, *loud])


async def _rounds(
    ready: Bench, chosen: Sequence[Case], given: argparse.Namespace, title: str, before: list[Result]
) -> list[Result]:
    limit, results = Limit(given.seconds), []
    for number in range(given.evaluations):
        if number and limit.passed:
            break
        for case in chosen:
            results.append(await ready.evaluate(case))
            progress(f"{title} {number + 1} of {given.evaluations}  {told(results[-1])}")
        runs = {"quiet": before or results, "busy": results if before else []}
        ready.write(
            given.json,
            busy=given.busy,
            summaries={name: [asdict(one) for one in summarize(run)] for name, run in runs.items()},
            evaluations={name: as_rows(run) for name, run in runs.items()},
        )
    return results


def summarize(results: Sequence[Result]) -> list[Summary]:
    """One summary for each kernel, in the order of their first evaluations."""
    names = dict.fromkeys(result.case for result in results)
    return [_summary([result for result in results if result.case == name]) for name in names]


def _summary(results: Sequence[Result]) -> Summary:
    name, seconds = results[0].case, statistics.median(result.seconds for result in results)
    passed = [result for result in results if result.verdict == "passed"]
    timed = [
        (result, result.runtime_ms, result.speedup, result.low, result.high)
        for result in passed
        if result.runtime_ms is not None
        and result.speedup is not None
        and result.low is not None
        and result.high is not None
    ]
    if not timed:
        return Summary(name, len(results), len(passed), seconds)
    runtimes = [runtime for _, runtime, _, _, _ in timed]
    speedups = [speedup for _, _, speedup, _, _ in timed]
    middle = statistics.median(speedups)
    bound = [result.launch_bound for result, *_ in timed if result.launch_bound is not None]
    return Summary(
        case=name,
        evaluations=len(results),
        passed=len(passed),
        seconds=seconds,
        runtime_ms=statistics.median(runtimes),
        runtime_spread=spread(runtimes),
        speedup=middle,
        spread=spread(speedups),
        deviation=statistics.stdev(speedups) / statistics.mean(speedups) if len(speedups) > 1 else None,
        claim=statistics.median((high - low) / speedup for _, _, speedup, low, high in timed),
        held=statistics.mean(low <= middle <= high for _, _, _, low, high in timed),
        samples=statistics.median(result.samples or 0 for result, *_ in timed),
        clock="/".join(sorted({result.clock or NONE for result, *_ in timed})),
        launch_bound=any(bound) if bound else None,
    )


def spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def target(runtime_ms: float, loud: bool) -> float:
    """The spread that an evaluation of a kernel of this length should keep to."""
    short, long = TARGETS[loud]
    return long if runtime_ms >= LONG_MS else short


def report(quiet: Sequence[Summary], loud: Sequence[Summary] | None = None) -> str:
    """The table, with the busy one beside the quiet one where there is one."""
    if loud is None:
        return table(["kernel", *_HEADER], [[one.case, *_cells(one, False)] for one in quiet])
    beside = {one.case: _cells(one, True) for one in loud}
    nothing = [NONE] * len(_HEADER)
    rows = [[one.case, *_cells(one, False), "|", *beside.get(one.case, nothing)] for one in quiet]
    return table(["kernel", *_HEADER, "| busy:", *_HEADER], rows)


_HEADER = (
    "passed",
    "ms",
    "ms spread %",
    "speedup",
    "spread %",
    "target %",
    "",
    "rsd %",
    "claims %",
    "held %",
    "samples",
    "clock",
    "launch",
    "s",
)


def _cells(one: Summary, loud: bool) -> list[str]:
    goal = None if one.runtime_ms is None else target(one.runtime_ms, loud)
    over = goal is not None and one.spread is not None and one.spread > goal
    return [
        f"{one.passed}/{one.evaluations}",
        digits(one.runtime_ms),
        percent(one.runtime_spread),
        digits(one.speedup),
        percent(one.spread),
        NONE if goal is None else f"{100 * goal:.0f}",
        "over" if over else "",
        percent(one.deviation),
        percent(one.claim),
        NONE if one.held is None else f"{100 * one.held:.0f}",
        NONE if one.samples is None else f"{one.samples:.0f}",
        one.clock or NONE,
        mark(one.launch_bound),
        f"{one.seconds:.1f}",
    ]


def _options() -> argparse.Namespace:
    parser = options("repeatability", __doc__)
    parser.add_argument("--evaluations", type=natural, default=10, help="of each kernel, 10 by default")
    parser.add_argument("--busy", type=natural, default=0, metavar="N", help="measure beside N busy processes too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
