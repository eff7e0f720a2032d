"""Honest kernels as a run directory in KernelBench's naming: `python -m benchmarks.run_folder FOLDER`.

Of one level and language, spread over the level's problems. `kernel-env eval-run`, `score` and `report` take it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from kernel_env.toolkit.folder import Sample
from kernel_env.toolkit.problems import place
from tests.kernels import Kernel, kernels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--language", choices=("triton", "cuda"), default="triton")
    given = parser.parse_args()
    chosen = spread([one for one in kernels(given.language) if _level(one) == given.level], given.count)
    given.folder.mkdir(parents=True, exist_ok=True)
    for kernel in chosen:
        level, problem = place(kernel.task_id) or (0, 0)
        (given.folder / Sample(level, problem, 0).file_name).write_text(kernel.code)
    print(f"{given.folder}: {len(chosen)} kernels")


def spread(found: Sequence[Kernel], count: int) -> list[Kernel]:
    """At most `count`, at even distances."""
    step = max(len(found) / max(count, 1), 1.0)
    return [found[int(index * step)] for index in range(min(count, len(found)))]


def _level(kernel: Kernel) -> int:
    return (place(kernel.task_id) or (0, 0))[0]


if __name__ == "__main__":
    main()
