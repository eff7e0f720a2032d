"""The figures that runs are compared by, each from plain numbers. Pure functions; the same data, the same answer.

A ratio is baseline time over kernel time; None stands for a kernel that is not correct, or that was not timed.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Z95 = 1.959963984540054
BOOTSTRAP_ROUNDS = 1000
SHARE = 0.025

Ratio = float | None
T = TypeVar("T")


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval; the ends are None where there is too little to tell."""

    value: float
    low: float | None = None
    high: float | None = None


def fast_p(ratios: Sequence[Ratio], tasks: int, p: float) -> float:
    """The share of `tasks` whose ratio is above `p`, as KernelBench counts it."""
    return sum(ratio is not None and ratio > p for ratio in ratios) / tasks if tasks else 0.0


def wilson(successes: float, trials: int) -> Estimate:
    """A share with Wilson's score interval."""
    if not trials:
        return Estimate(0.0)
    share = successes / trials
    spread = Z95**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z95 / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half))


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The chance that one of `k` samples drawn without replacement is right, unbiased (Chen et al., 2021).

    Raises ValueError unless 0 <= right <= samples and 1 <= k <= samples.
    """
    if not (0 <= right <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} of {right} right ones among {samples} samples is not defined")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers, at least one."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def bootstrap(tasks: Sequence[T], figure: Callable[[Sequence[T]], float]) -> Estimate | None:
    """`figure` of `tasks` with a percentile interval over resampled tasks; None of nothing."""
    if not tasks:
        return None
    found = figure(tasks)
    if len(tasks) < 2:
        return Estimate(found)
    rng = random.Random(len(tasks))
    rounds = sorted(figure(rng.choices(tasks, k=len(tasks))) for _ in range(BOOTSTRAP_ROUNDS))
    cut = int(SHARE * BOOTSTRAP_ROUNDS)
    return Estimate(found, min(rounds[cut], found), max(rounds[-cut - 1], found))
