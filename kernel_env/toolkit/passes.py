"""`pass_at_k_results.json` in KernelBench's layout: pass@k of each problem, its averages, and counts.

A problem has pass@k for each k of `KS` up to its number of samples; an average is over the problems that have it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .attempt import Attempt
from .folder import PASS_AT_K, write_whole
from .measures import pass_at_k

KS = (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100)


def table(attempts: Iterable[Attempt]) -> dict[str, Any]:
    """Of one level's attempts."""
    groups: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.problem, []).append(attempt)
    problems = {str(problem): _problem(groups[problem]) for problem in sorted(groups)}
    values: dict[str, list[float]] = {}
    for found in problems.values():
        for name, value in found.items():
            if name.startswith("pass@"):
                values.setdefault(name, []).append(value)
    metadata = {
        "total_problems": len(problems),
        "problems_with_samples": len(problems),
        "total_evaluated_samples": sum(found["total_samples"] for found in problems.values()),
        "total_correct_samples": sum(found["correct_samples"] for found in problems.values()),
        **{f"{name}_count": len(found) for name, found in values.items()},
    }
    averages = {f"avg_{name}": statistics.fmean(found) for name, found in values.items()}
    return {"averages": averages, "metadata": metadata, "problems": problems}


def write(results: Path, found: Mapping[str, Any]) -> None:
    """Beside a results file. Raises OSError."""
    write_whole(results.with_name(PASS_AT_K), json.dumps(found, indent=2))


def _problem(attempts: list[Attempt]) -> dict[str, Any]:
    count, right = len(attempts), sum(attempt.correct for attempt in attempts)
    passes = {f"pass@{k}": pass_at_k(count, right, k) for k in KS if k <= count}
    return {"total_samples": count, "correct_samples": right, **passes}
