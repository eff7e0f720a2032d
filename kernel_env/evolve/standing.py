"""Who is best: decided by confirmed measurements and by more than their spread. Pure functions.

A first measurement only gets a program into the confirmation: the best of many first measurements is the luckiest.
Times of one evaluation have an interval; how far evaluations of one program differ is worked out over the whole
run, from each confirmation and what it confirmed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from .metrics import Metrics
from .tree import Node

PAIRS = 3  # fewer say nothing of a spread
SIGMAS = 1.96
_TO_SIGMA = 1.4826 / math.sqrt(2.0)  # from the median distance of two measurements


def estimate(node: Node) -> float | None:
    """The confirmed speedup: the median of what confirmed it. None where nothing did, or it has no times."""
    times = [metrics.speedup for metrics in node.confirmations if metrics.timed]
    return statistics.median(times) if times else None


def noise(nodes: Iterable[Node]) -> float:
    """The standard deviation of a program's speedup between evaluations, as a logarithm; 0 while unknown."""
    distances = [
        abs(math.log(again.speedup / node.metrics.speedup))
        for node in nodes
        if node.metrics is not None and node.metrics.timed
        for again in node.confirmations
        if again.timed
    ]
    return _TO_SIGMA * statistics.median(distances) if len(distances) >= PAIRS else 0.0


def spread(node: Node, between: float) -> float:
    """Half the width of the 95 % interval of the confirmed speedup, as a logarithm."""
    timed = [metrics for metrics in node.confirmations if metrics.timed]
    if not timed:
        return 0.0
    within = statistics.median(_half_width(metrics) for metrics in timed)
    return max(within, SIGMAS * between) / math.sqrt(len(timed))


def challenges(metrics: Metrics, best: Node | None) -> bool:
    """Whether a first measurement is worth confirming."""
    if best is None:
        return metrics.correct
    held = estimate(best)
    return metrics.timed and (held is None or metrics.speedup > held)


def beats(node: Node, best: Node | None, between: float) -> bool:
    """Whether a confirmed program takes the place of the best: by more than both spreads together."""
    if best is None:
        return True
    mine, held = estimate(node), estimate(best)
    if mine is None or held is None:
        return mine is not None
    return math.log(mine / held) > math.hypot(spread(node, between), spread(best, between))


def faster(node: Node, between: float) -> bool:
    """Whether it is faster than the reference by more than its spread."""
    mine = estimate(node)
    return mine is not None and math.log(mine) > spread(node, between)


def _half_width(metrics: Metrics) -> float:
    low, high = metrics.speedup_low, metrics.speedup_high
    return math.log(high / low) / 2.0 if low and high and 0.0 < low <= high < math.inf else 0.0
