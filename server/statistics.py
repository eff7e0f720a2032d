"""What timed blocks say: medians, the speedup and its interval. Pure functions, no clock, no torch."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BOOTSTRAP_ROUNDS = 400


@dataclass(frozen=True)
class Block:
    """One block of the candidate and the reference's beside it: ms a call, of the same inputs."""

    candidate: tuple[float, ...]
    reference: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.reference) / max(statistics.median(self.candidate), 1e-9)


@dataclass(frozen=True)
class Estimate:
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
    """The median of the blocks' ratios, with its 95 % bootstrap interval (fixed seed: same data, same answer)."""
    ratios = [block.ratio for block in blocks]
    rng = random.Random(len(ratios))
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(BOOTSTRAP_ROUNDS))
    return Estimate(
        runtime_ms=statistics.median(lap for block in blocks for lap in block.candidate),
        ref_runtime_ms=statistics.median(lap for block in blocks for lap in block.reference),
        speedup=statistics.median(ratios),
        low=medians[int(0.025 * BOOTSTRAP_ROUNDS)],
        high=medians[int(0.975 * BOOTSTRAP_ROUNDS) - 1],
        samples=sum(len(block.candidate) for block in blocks),
    )


def plausible(claimed_ms: float, calls: int, wall_ms: float, overhead_ms: float, per_call_ms: float) -> bool:
    """Can `calls` calls that claim `claimed_ms` in all have taken `wall_ms` on the judge's clock?

    The judge's wall time holds the calls, a fixed overhead for the messages, and `per_call_ms` of host
    time for each call that a device clock does not see. A claim below what is left, less a fifth, is not
    believed.
    """
    unexplained = wall_ms - overhead_ms - calls * per_call_ms
    return claimed_ms >= 0.8 * unexplained
