"""Our evaluations beside KernelBench's own, of the same submissions.

`python -m benchmarks.upstream --checkout DIR`; README.md explains the columns. Each kernel is evaluated through
the whole path, then by `eval_kernel_against_ref` of a checkout of KernelBench (5 trials, 100 timed calls) in a
process of its own, as its scripts do it. Needs a CUDA device.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kernels import kernels

from .alone import alone
from .cases import Case, case_of
from .evaluations import Bench, DeviceError, Limit, Result, bench, options, progress, settings_of, told
from .tables import NONE, digits, table

KERNELS = ("level1/19_", "level1/23_", "level1/36_", "level1/40_", "level1/95_", "level2/", "level3/")


@dataclass(frozen=True)
class Pair:
    """One submission under both; `upstream_s` is the seconds of its process, `call_s` those of its one call."""

    ours: Result
    verdict: str
    runtime_ms: float | None = None
    call_s: float | None = None
    upstream_s: float = 0.0

    @property
    def ratio(self) -> float:
        return self.upstream_s / self.ours.seconds


def main() -> None:
    given = _options()
    try:
        asyncio.run(_measure(given))
    except DeviceError as error:
        sys.exit(f"upstream: {error}")


async def _measure(given: argparse.Namespace) -> None:
    settings, limit = settings_of(given), Limit(given.seconds)
    if settings.kernelbench_dir is None:
        sys.exit("upstream: KERNELBENCH_DIR is not set; it is the KernelBench/ folder of a checkout")
    pairs: list[Pair] = []
    async with bench(settings, single=True) as ready:
        if ready.device.kind != "cuda":
            sys.exit("upstream: KernelBench's evaluator needs a CUDA device")
        for case in _chosen(settings.kernelbench_dir, given.kernels or KERNELS):
            if limit.passed:
                break
            pairs.append(await _pair(ready, case, given.checkout))
            progress(f"{told(pairs[-1].ours)}; upstream: {pairs[-1].verdict}, {pairs[-1].upstream_s:.1f} s")
            ready.write(given.json, pairs=[asdict(pair) for pair in pairs])
    print(f"\n{report(pairs)}")


def _chosen(kernelbench: Path, names: Sequence[str]) -> list[Case]:
    """Cheap ones among the honest kernels that hold one of the names."""
    return [
        case_of(kernel, (kernelbench / f"{kernel.task_id}.py").read_text(encoding="utf-8"))
        for kernel in kernels()
        if any(name in f"{kernel.language} {kernel.task_id}" for name in names)
    ]


async def _pair(ready: Bench, case: Case, checkout: Path) -> Pair:
    ours = await ready.evaluate(case)
    began = time.monotonic()
    found, message = await alone(
        "upstream_alone", case, str(checkout), case.language, CUDA_VISIBLE_DEVICES=ready.device.index
    )
    seconds = time.monotonic() - began
    if found is None:
        return Pair(ours, f"failed: {message}", upstream_s=seconds)
    verdict = "passed" if found["correct"] else "incorrect" if found["compiled"] else "not compiled"
    return Pair(ours, verdict, found["runtime_ms"], found["seconds"], seconds)


def report(pairs: Sequence[Pair]) -> str:
    header = [
        "kernel",
        "ours",
        "upstream",
        "ours ms",
        "upstream ms",
        "ours s",
        "upstream s",
        "its call s",
        "ratio",
    ]
    rows = [
        [
            f"{pair.ours.language} {pair.ours.case}",
            pair.ours.verdict,
            pair.verdict.partition(":")[0],
            digits(pair.ours.runtime_ms),
            digits(pair.runtime_ms) if pair.verdict == "passed" else NONE,
            f"{pair.ours.seconds:.1f}",
            f"{pair.upstream_s:.1f}",
            NONE if pair.call_s is None else f"{pair.call_s:.1f}",
            f"{pair.ratio:.1f}",
        ]
        for pair in pairs
    ]
    if not pairs:
        return "nothing was measured"
    middle = statistics.median(pair.ratio for pair in pairs)
    return f"{table(header, rows)}\n\nmedian ratio {middle:.1f}"


def _options() -> argparse.Namespace:
    parser = options("upstream", __doc__)
    parser.add_argument("--checkout", type=_checkout, required=True, help="a checkout of KernelBench")
    return parser.parse_args()


def _checkout(text: str) -> Path:
    folder = Path(text).absolute()
    if not (folder / "src" / "kernelbench" / "eval.py").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} holds no src/kernelbench/eval.py")
    return folder


if __name__ == "__main__":
    main()
