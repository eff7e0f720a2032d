"""All kernels of `tests/kernels` on this machine's device: `python -m benchmarks.honest_kernels`.

README.md explains the columns. Needs KernelBench (`KERNELBENCH_DIR`). On a CPU only the Triton ones run, at the
reduced sizes of the tests and untimed. `--readme` measures nothing: it takes the results of earlier runs and
writes the range of each kernel's speedups into the table of `tests/kernels/README.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kernels import FOLDER, Kernel, kernels
from tests.kernels.reduce import SMALL, reduced

from .cases import Case, case_of
from .evaluations import Bench, DeviceError, Limit, Result, as_rows, bench, natural, options, settings_of
from .tables import NONE, digits, percent

README = FOLDER / "README.md"
ROW = re.compile(r"^\| `(.+?)` \| ([\w ]+) \| (.*?) ?\| (.*?) ?\|$", re.M)

Speedups = Mapping[tuple[str, str], Sequence[float]]


class ResultsError(ValueError):
    """Result files that do not belong into the table."""


def main() -> None:
    given = _options()
    try:
        if given.readme:
            README.write_text(rewritten(README.read_text(), speedups(given.readme)))
            return
        passed = asyncio.run(_measure(given))
    except (DeviceError, ResultsError, OSError) as error:
        sys.exit(f"honest_kernels: {error}")
    sys.exit(0 if passed else 1)


async def _measure(given: argparse.Namespace) -> bool:
    settings = settings_of(given)
    if settings.kernelbench_dir is None:
        sys.exit("honest_kernels: KERNELBENCH_DIR is not set; it is the KernelBench/ folder of a checkout")
    async with bench(settings) as ready:
        chosen = [
            _case(kernel, settings.kernelbench_dir, ready.device.kind == "cpu")
            for kernel in kernels(given.language)
            if not given.kernels or any(part in kernel.task_id for part in given.kernels)
            if ready.device.kind != "cpu" or kernel.language == "triton"
        ]
        if not chosen:
            sys.exit("honest_kernels: there is no such kernel")
        print(f"\n{_HEADER}", flush=True)
        results = await _results(ready, chosen, given)
    counts = Counter(result.verdict for result in results)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    print(f"\n{len(results)} of {len(chosen)} kernels: {listed}")
    return counts["passed"] == len(chosen)


async def _results(ready: Bench, chosen: Sequence[Case], given: argparse.Namespace) -> list[Result]:
    """In the order in which they are done; as many at a time as `--at-once` says for each device."""
    slots = asyncio.Semaphore(given.at_once * len(ready.pool.health()["devices"]))
    limit, results = Limit(given.seconds), list[Result]()

    async def one(case: Case) -> None:
        async with slots:
            if limit.passed:
                return
            results.append(await ready.evaluate(case))
            print(_line(results[-1]), flush=True)
            ready.write(given.json, evaluations=as_rows(results))

    async with asyncio.TaskGroup() as group:
        for case in chosen:
            group.create_task(one(case))
    return results


def _case(kernel: Kernel, kernelbench: Path, small: bool) -> Case:
    source = (kernelbench / f"{kernel.task_id}.py").read_text(encoding="utf-8")
    return case_of(kernel, reduced(source, SMALL[kernel.task_id]) if small else source)


_HEADER = (
    f"{'task':57} {'language':8} {'verdict':17} {'speedup':>8} {'low':>8} {'high':>8} {'ms':>8} {'roofline %':>10}"
    f" {'clock':>6} {'s':>6}"
)


def _line(result: Result) -> str:
    roofline = percent(result.roofline)
    line = (
        f"{result.case:57} {result.language:8} {result.verdict:17} {digits(result.speedup):>8}"
        f" {digits(result.low):>8} {digits(result.high):>8} {digits(result.runtime_ms):>8} {roofline:>10}"
        f" {result.clock or NONE:>6} {result.seconds:6.1f}"
    )
    return f"{line}\n    {result.message[:300]}" if result.message else line


def speedups(paths: Sequence[Path]) -> dict[tuple[str, str], list[float]]:
    """By task and language, over the results in `paths`. Raises `ResultsError` if they are of several devices."""
    reports: list[dict[str, Any]] = [json.loads(path.read_text()) for path in paths]
    devices = {(report["device"]["kind"], report["device"]["name"]) for report in reports}
    if len(devices) != 1:
        raise ResultsError(f"results of several devices: {', '.join(sorted(name for _, name in devices))}")
    ((kind, name),) = devices
    if kind != "cuda":
        raise ResultsError(f"the table is of a GPU, these are results of {name}")
    found: dict[tuple[str, str], list[float]] = {}
    for report in reports:
        for row in report["evaluations"]:
            if row["speedup"] is not None:
                found.setdefault((row["case"], row["language"]), []).append(row["speedup"])
    return found


def rewritten(readme: str, measured: Speedups) -> str:
    """The text with the ranges of `measured` in its table; a kernel that is not in it keeps what it has."""

    def row(match: re.Match[str]) -> str:
        task, family, *cells = match.groups()
        cells = [
            bounds(measured[task, language]) if cell and (task, language) in measured else cell
            for cell, language in zip(cells, ("triton", "cuda"), strict=True)
        ]
        return f"| `{task}` | {family} | {cells[0]} | {cells[1]} |"

    return ROW.sub(row, readme)


def bounds(values: Sequence[float]) -> str:
    """A range such as 1.25–1.31, or one number where three digits tell no difference."""
    low, high = digits(min(values), 3), digits(max(values), 3)
    return low if low == high else f"{low}–{high}"


def _options() -> argparse.Namespace:
    parser = options("honest_kernels", __doc__)
    parser.add_argument("--language", choices=("triton", "cuda", "helion"), help="only these")
    parser.add_argument(
        "--at-once",
        type=natural,
        default=1,
        metavar="N",
        help="submissions on their way for each device, 1 by default: with 2, builds overlap with measuring",
    )
    parser.add_argument(
        "--readme", type=Path, nargs="+", metavar="JSON", help="results for the table in tests/kernels/README.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
