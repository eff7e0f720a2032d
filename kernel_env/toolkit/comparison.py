"""Two runs side by side: tasks won and lost, and how much faster the second is where both are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .attempt import Attempt
from .figures import best_of_tasks
from .measures import Estimate, bootstrap, geometric_mean


@dataclass(frozen=True)
class Pair:
    """A task that both have a time for. `apart`: their intervals don't touch, so the difference is no noise."""

    task: str
    first: float
    second: float
    apart: bool

    @property
    def ratio(self) -> float:
        return self.second / self.first


@dataclass(frozen=True)
class Comparison:
    """`ratio` is the geometric mean of the second's speedups over the first's, over the tasks of `pairs`."""

    pairs: list[Pair]
    only_first: list[str]
    only_second: list[str]
    ratio: Estimate | None


def compare(first: Sequence[Attempt], second: Sequence[Attempt]) -> Comparison:
    """Of the fastest right attempt of each task."""
    ones, others = best_of_tasks(first), best_of_tasks(second)
    pairs = [_pair(task, ones[task], others[task]) for task in ones if task in others]
    pairs.sort(key=lambda pair: pair.ratio, reverse=True)
    return Comparison(
        pairs=pairs,
        only_first=sorted(set(ones) - set(others)),
        only_second=sorted(set(others) - set(ones)),
        ratio=bootstrap([pair.ratio for pair in pairs], geometric_mean),
    )


def _pair(task: str, one: Attempt, other: Attempt) -> Pair:
    low = max(one.speedup_low or 0.0, other.speedup_low or 0.0)
    known = None not in (one.speedup_low, one.speedup_high, other.speedup_low, other.speedup_high)
    apart = known and low > min(one.speedup_high or 0.0, other.speedup_high or 0.0)
    return Pair(task, one.speedup or 0.0, other.speedup or 0.0, apart)
