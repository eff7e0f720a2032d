"""What timed blocks say: which count, medians, the speedup, its interval. Pure functions, no clock, no torch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

BOOTSTRAP_ROUNDS = 500
SHORTEST_MS = 1e-6
CLOCK_SHARE = 0.02


@dataclass(frozen=True)
class Reading:
    """The device's clock after a block, and whether heat or the power supply held it back."""

    mhz: int
    slowed: bool


@dataclass(frozen=True)
class Block:
    """One block of the candidate and the reference's beside it: the median ms a call of each, and the clocks."""

    candidate: float
    reference: float
    calls: int
    candidate_clock: Reading | None = None
    reference_clock: Reading | None = None

    @classmethod
    def of(
        cls,
        candidate: Sequence[float],
        reference: Sequence[float],
        candidate_clock: Reading | None = None,
        reference_clock: Reading | None = None,
    ) -> Block:
        medians = statistics.median(candidate), statistics.median(reference)
        return cls(*medians, len(candidate), candidate_clock, reference_clock)


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
    rng = numpy.random.RandomState(len(blocks))
    drawn = rng.randint(len(blocks), size=(BOOTSTRAP_ROUNDS, len(blocks)))
    candidate = numpy.array([block.candidate for block in blocks])
    reference = numpy.array([block.reference for block in blocks])
    ratios = numpy.sort(_middle(reference[drawn]) / _middle(candidate[drawn]))
    runtime_ms, ref_runtime_ms = float(_middle(candidate)), float(_middle(reference))
    speedup = ref_runtime_ms / runtime_ms
    return Estimate(
        runtime_ms=runtime_ms,
        ref_runtime_ms=ref_runtime_ms,
        speedup=speedup,
        low=min(float(ratios[int(0.025 * BOOTSTRAP_ROUNDS)]), speedup),
        high=max(float(ratios[int(0.975 * BOOTSTRAP_ROUNDS) - 1]), speedup),
        samples=sum(block.calls for block in blocks),
    )


def spread(medians: Sequence[float]) -> dict[str, float]:
    """Of the blocks' medians (ms, not empty): standard deviation, least and greatest, as `Timing` names them."""
    return {"std_ms": statistics.pstdev(medians), "min_ms": min(medians), "max_ms": max(medians)}


def steady(blocks: Sequence[Block]) -> Sequence[Block]:
    """The blocks during which neither side's clock was off its own usual one: all, where most were.

    The two sides may differ from each other for good: what draws more power runs at a lower clock.
    """
    disturbed = _disturbed([b.candidate_clock for b in blocks]) | _disturbed([b.reference_clock for b in blocks])
    if 2 * len(disturbed) > len(blocks):
        return blocks
    return [block for index, block in enumerate(blocks) if index not in disturbed]


def _disturbed(readings: Sequence[Reading | None]) -> set[int]:
    known = [reading for reading in readings if reading is not None]
    if not known:
        return set()
    usual = statistics.median(reading.mhz for reading in known)
    return {
        index
        for index, reading in enumerate(readings)
        if reading is not None and (reading.slowed or abs(reading.mhz - usual) > CLOCK_SHARE * usual)
    }


def _middle(times: Any) -> Any:
    """Medians along the last axis, none of them nothing."""
    return numpy.maximum(numpy.median(times, axis=-1), SHORTEST_MS)
