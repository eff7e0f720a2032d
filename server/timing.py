"""Timing: candidate and reference in alternating blocks, on the same fresh inputs, outputs verified.

The candidate's process measures its own calls (see `laps`); that is a claim, which the judge's own clock bounds
(see `bounds`) and replaces where it can't be true. On CUDA the device is held before each call for as long as the
reference's host needs to launch one, and a little more: so neither a busy host nor the guard counts, and a
candidate's host counts as far as it needs longer. Repeats stop when the interval is narrow or the budget is spent.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from .blocks import Blocks
from .bounds import Bound
from .clocks import Clocks
from .laps import Laps, cycles_per_ms
from .mailbox import InputSet
from .outcome import Timing
from .statistics import Block, Reading, estimate, spread, steady

MIN_BLOCKS = 5
MAX_BLOCKS = 200
FEWEST, BLOCK_S = 2, 0.03
NARROW = 0.005
CHECKED_SHARE = 4
"""The interval is looked at again when a fourth more blocks are there: the look takes milliseconds."""
WARM_S = 0.3
WARM_LEAST_S = 0.1
BOUND_AFTER = frozenset({1, 5, 9, 17, 33, 65, 129})
"""Blocks after which the judge's clock measures one: seldom in the long run, as it takes as long as several."""
HOLD_SHARE = 2.5
HOLD_MS = 0.06
LONGEST_HOLD_MS = 150.0
ALONE_BLOCKS = 3
BARE = 5
DISTURBED = 1.25


class Contest:
    """One candidate against the reference on one task."""

    def __init__(self, blocks: Blocks) -> None:
        self._sides = blocks
        self._cuda = blocks.device.type == "cuda"
        self._clocks = Clocks(blocks.device)
        self._blocks: list[Block] = []
        self._hosts: list[float] = []
        self._means: list[float] = []
        self._alone_ms = float("inf")
        blocks.usual = FEWEST

    def run(self, budget_s: float) -> Timing:
        """Raises `Ended` when a timed output is wrong or the candidate fails."""
        host_ms, hold = self._warm(), 0
        if self._cuda:
            hold_ms = min(HOLD_SHARE * host_ms + HOLD_MS, LONGEST_HOLD_MS)
            hold = int(hold_ms * cycles_per_ms(self._sides.device))
        with closing(Bound(self._sides, host_ms)) as bound:
            self._measure(bound, hold, budget_s)
            return self._verdict(bound)

    def _bare_host(self) -> float:
        """The candidate's host time (ms) without the guard, which is none of its doing."""
        entries = self._sides.refill(min(BARE, self._sides.usual))
        host = self._sides.bare(entries).host
        self._sides.verify(entries, self._sides.digests(entries))
        return statistics.median(host)

    def _measure(self, bound: Bound, hold: int, budget_s: float) -> None:
        started = time.monotonic()
        while len(self._blocks) < MAX_BLOCKS:
            self._block(hold)
            if len(self._blocks) in BOUND_AFTER:
                bound.measure(self._means[-1], self._blocks[-1].reference)
            spent = time.monotonic() - started
            if len(self._blocks) < MIN_BLOCKS and spent < 4 * budget_s:
                continue
            if len(self._blocks) >= 2 and (spent > budget_s or self._narrow()):
                break

    def _warm(self) -> float:
        """Both sides by time, so that clocks have ramped and code is loaded; the reference's host time (ms).

        On a device whose clock is up already, a third of that time will do.
        """
        started = time.monotonic()
        alone = self._refill()
        self._sides.reference(alone, self._cuda)
        for _ in range(ALONE_BLOCKS):
            laps = self._sides.reference(alone, self._cuda)
            self._alone_ms = min(self._alone_ms, statistics.median(laps.device))
        hosts: list[float] = []
        spent = time.monotonic() - started
        while len(hosts) < 2 or not self._warmed(spent):
            entries = self._refill()
            self._sides.claim(entries, self._cuda)
            self._sides.verify(entries, self._sides.digests(entries))
            laps = self._sides.reference(entries, self._cuda)
            hosts.append(statistics.median(laps.host))
            before, spent = spent, time.monotonic() - started
            self._sides.usual = self._worth((spent - before) / len(entries), laps)
        return statistics.median(hosts)

    def _warmed(self, spent_s: float) -> bool:
        return spent_s >= WARM_S or (spent_s >= WARM_LEAST_S and self._clocks.ramped())

    def _worth(self, took_s: float, laps: Laps) -> int:
        """The calls in a block, by what one takes with all that is drawn, kept and compared for it.

        As many as there are sets on a CPU, whose times the judge's clock bounds less closely.
        """
        if not self._cuda:
            return len(self._sides.mailbox.sets)
        held_s = 2e-3 * HOLD_SHARE * statistics.median(laps.host)
        return max(1, int(BLOCK_S / (took_s + held_s)))

    def _refill(self) -> list[InputSet]:
        return self._sides.refill(self._sides.usual)

    def _block(self, hold: int) -> None:
        entries = self._refill()
        if secrets.randbelow(2):
            candidate, candidate_clock = self._claim(entries, hold)
            self._sides.restore(entries)
            reference, reference_clock = self._reference(entries, hold)
        else:
            reference, reference_clock = self._reference(entries, hold)
            self._sides.restore(entries)
            candidate, candidate_clock = self._claim(entries, hold)
        self._means.append(statistics.mean(candidate.device))
        self._hosts.append(statistics.median(reference.host))
        self._blocks.append(Block.of(candidate.device, reference.device, candidate_clock, reference_clock))

    def _claim(self, entries: Sequence[InputSet], hold: int) -> tuple[Laps, Reading | None]:
        laps, clock = self._sides.claim(entries, self._cuda, hold), self._clocks.read()
        self._sides.verify(entries, self._sides.digests(entries))
        return laps, clock

    def _reference(self, entries: Sequence[InputSet], hold: int) -> tuple[Laps, Reading | None]:
        return self._sides.reference(entries, self._cuda, hold), self._clocks.read()

    def _narrow(self) -> bool:
        count = len(self._blocks)
        due = count % max(1, count // CHECKED_SHARE) == 0
        return due and estimate(steady(self._blocks)).half_width < NARROW

    def _undisturbed(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """A reference far slower than before the submission was timed is slowed by it: the earlier time counts.

        Not on a CPU, where the host alone makes larger differences.
        """
        usual = statistics.median(block.reference for block in blocks)
        if not self._cuda or usual <= DISTURBED * self._alone_ms:
            return blocks
        return [replace(block, reference=self._alone_ms) for block in blocks]

    def _verdict(self, bound: Bound) -> Timing:
        blocks = self._undisturbed(steady(self._blocks))
        result = estimate(blocks)
        judged = bound.judged(statistics.median(self._means))
        if judged is not None:
            result = estimate([replace(block, candidate=judged) for block in blocks])
        return Timing(
            runtime_ms=result.runtime_ms,
            ref_runtime_ms=result.ref_runtime_ms,
            speedup=result.speedup,
            low=result.low,
            high=result.high,
            samples=result.samples,
            clock="judge" if judged is not None else "events" if self._cuda else "wall",
            host_ms=self._bare_host() if self._cuda else None,
            ref_host_ms=statistics.median(self._hosts) if self._cuda else None,
            **({} if judged is not None else spread([block.candidate for block in blocks])),
        )
