"""What timed blocks say: medians, the speedup and its interval. Pure functions, no clock, no torch."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BOOTSTRAP_ROUNDS = 200
SHORTEST_MS = 1e-6


@dataclass(frozen=True)
class Block:
    """One block of the candidate and the reference's beside it: the median ms a call of each."""

    candidate: float
    reference: float
    calls: int

    @classmethod
    def of(cls, candidate: Sequence[float], reference: Sequence[float]) -> Block:
        return cls(statistics.median(candidate), statistics.median(reference), len(candidate))


@dataclass(frozen=True)
class Estimate:
    """`speedup` is `ref_runtime_ms / runtime_ms`; `low` and `high` bound it (95 %); `samples` timed calls."""

    runtime_ms: float
    ref_runtime_ms: float
    speedup: float
    low: float
    high: float
    samples: int

    @property
    def half_width(self) -> float:
        """Half the interval, relative to the speedup."""
        return (self.high - self.low) / (2 * self.speedup)


def estimate(blocks: Sequence[Block]) -> Estimate:
    """Medians over the blocks, their ratio, and its bootstrap interval (fixed seed: same data, same answer).

    Blocks are resampled whole, so that what candidate and reference share (clocks, heat) stays paired.
    """
    rng = random.Random(len(blocks))
    ratios = sorted(_ratio(rng.choices(blocks, k=len(blocks))) for _ in range(BOOTSTRAP_ROUNDS))
    runtime, reference = _medians(blocks)
    return Estimate(
        runtime_ms=runtime,
        ref_runtime_ms=reference,
        speedup=reference / runtime,
        low=min(ratios[int(0.025 * BOOTSTRAP_ROUNDS)], reference / runtime),
        high=max(ratios[int(0.975 * BOOTSTRAP_ROUNDS) - 1], reference / runtime),
        samples=sum(block.calls for block in blocks),
    )


def _medians(blocks: Sequence[Block]) -> tuple[float, float]:
    candidate = statistics.median(block.candidate for block in blocks)
    return max(candidate, SHORTEST_MS), statistics.median(block.reference for block in blocks)


def _ratio(blocks: Sequence[Block]) -> float:
    runtime, reference = _medians(blocks)
    return reference / runtime


def plausible(claimed_ms: float, calls: int, wall_ms: float, overhead_ms: float, per_call_ms: float) -> bool:
    """Can `calls` calls that claim `claimed_ms` in all have taken `wall_ms` on the judge's clock?

    The judge's wall time holds the calls, a fixed overhead for the messages, and `per_call_ms` of host
    time for each call that a device clock does not see. A claim below what is left, less a fifth, is not
    believed.
    """
    unexplained = wall_ms - overhead_ms - calls * per_call_ms
    return claimed_ms >= 0.8 * unexplained
