"""Timing: the candidate and the reference in alternating blocks, on the same fresh inputs, outputs verified.

A block is one call on each of the mailbox's sets, in random order, refilled for every block. The candidate's
process measures its own calls (see `laps`); that is a claim. The judge bounds it with its own wall clock over
blocks without flush, which hold each call once and end when the outputs lie in the slots; a claim that can't
be true is replaced by the judge's figure. Repeats stop when the interval is narrow or the budget is spent.
"""

from __future__ import annotations

import secrets
import statistics
import time
from dataclasses import replace
from typing import Literal

import torch

from .laps import Stopwatch
from .layout import flatten
from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import Crashed, Timing, WrongOutput
from .reference import Reference
from .statistics import Block, Estimate, estimate, plausible
from .trials import settle
from .verify import Verifier

MIN_BLOCKS = 5
MAX_BLOCKS = 200
NARROW = 0.005
CHECK_EVERY = 5
WARM_S = 0.3
WALL_EVERY = 4
MESSAGE_MS = 2.0
ROOM_BYTES = 24 << 30
HOST_MS = 0.1


class Contest:
    """One candidate against the reference on one task."""

    def __init__(
        self,
        link: CandidateLink,
        reference: Reference,
        mailbox: Mailbox,
        verifier: Verifier,
    ) -> None:
        self._link = link
        self._reference = reference
        self._mailbox = mailbox
        self._verifier = verifier
        self._device = reference.device
        self._stopwatch = Stopwatch(reference.device)
        self._blocks: list[Block] = []
        self._walls: list[float] = []
        self._rests: list[float] = []
        self._copy_ms = 0.0

    def run(self, budget_s: float) -> Timing:
        """Raises `Ended` when a timed output is wrong or the candidate fails."""
        self._allocate_expected()
        self._copy_ms = self._measure_copies()
        self._warm()
        started = time.monotonic()
        while len(self._blocks) < MAX_BLOCKS:
            self._block()
            spent = time.monotonic() - started
            if len(self._blocks) < MIN_BLOCKS and spent < 4 * budget_s:
                continue
            if len(self._blocks) >= 2 and (spent > budget_s or self._narrow()):
                break
        return self._verdict()

    def _narrow(self) -> bool:
        return len(self._blocks) % CHECK_EVERY == 0 and estimate(self._blocks).half_width < NARROW

    def _make_room(self) -> None:
        """Judge idle; memory that it only caches is given back where the candidate may come to lack it."""
        if self._device.type != "cuda":
            return
        torch.cuda.synchronize(self._device)
        if torch.cuda.mem_get_info(self._device)[0] < ROOM_BYTES:
            torch.cuda.empty_cache()

    def _warm(self) -> None:
        """Both sides by time, so that clocks have ramped and caches of code are warm."""
        deadline = time.monotonic() + WARM_S
        while True:
            order = self._refill()
            self._claim(order, flush=False)
            self._time_reference(order, flush=False)
            self._verify(len(order))
            if time.monotonic() > deadline:
                return

    def _block(self) -> None:
        order = self._refill()
        flush = self._device.type == "cuda"
        if secrets.randbelow(2):
            candidate = self._claim(order, flush)
            reference = self._time_reference(order, flush)
        else:
            reference = self._time_reference(order, flush)
            candidate = self._claim(order, flush)
        self._verify(2)
        self._blocks.append(Block.of(candidate, reference))
        if flush and len(self._blocks) % WALL_EVERY == 1:
            self._claim(self._refill(), flush=False)

    def _refill(self) -> list[int]:
        for entry in self._mailbox.sets:
            self._mailbox.fill(entry, secrets.randbits(62))
        order = list(range(len(self._mailbox.sets)))
        secrets.SystemRandom().shuffle(order)
        return order

    def _claim(self, order: list[int], flush: bool) -> list[float]:
        """A block of the candidate: the ms it claims for each call; its wall time is noted where it bounds."""
        entries = [{"inputs": entry.inputs, "outputs": entry.outputs} for entry in self._mailbox.sets]
        self._make_room()
        start = time.perf_counter()
        reply = self._link.call("time", sets=entries, order=order, flush=flush)
        wall_ms = (time.perf_counter() - start) * 1e3
        laps = reply.get("laps")
        if not isinstance(laps, list) or len(laps) != len(order) or not all(_is_lap(lap) for lap in laps):
            raise Ended(Crashed(stage="timing", message="the candidate's process reported no timings"))
        if not flush:
            self._walls.append(wall_ms)
        return laps

    def _time_reference(self, order: list[int], flush: bool) -> list[float]:
        sets = self._mailbox.sets
        start = time.perf_counter()
        laps = self._stopwatch.laps(
            lambda index: self._reference(sets[index].private),
            lambda index, result: _keep(sets[index], result),
            order,
            flush,
        )
        wall_ms = (time.perf_counter() - start) * 1e3
        if not flush:
            self._rests.append(wall_ms - sum(laps) * (len(laps) + 1) / len(laps))
        return laps

    def _verify(self, count: int) -> None:
        settle(self._device)
        for entry in secrets.SystemRandom().sample(self._mailbox.sets, min(count, len(self._mailbox.sets))):
            problem = self._verifier.problem(self._mailbox, entry)
            if problem is not None:
                raise Ended(WrongOutput(stage="timing", message=f"in a timed call: {problem}"))

    def _allocate_expected(self) -> None:
        self._refill()
        for entry in self._mailbox.sets:
            _, outputs = flatten(self._reference(entry.private))
            entry.expected = [torch.empty(o.shape, dtype=o.dtype, device=o.device) for o in outputs]

    def _measure_copies(self) -> float:
        """What delivering a block's outputs costs, on the judge's own clock (ms)."""
        best = float("inf")
        for _ in range(3):
            settle(self._device)
            start = time.perf_counter()
            for entry in self._mailbox.sets:
                for target, source in zip(self._mailbox.answers(entry), entry.expected, strict=True):
                    target.copy_(source)
            settle(self._device)
            best = min(best, (time.perf_counter() - start) * 1e3)
        return best

    def _verdict(self) -> Timing:
        calls = len(self._mailbox.sets)
        # What the reference's blocks hold besides its calls says how busy the host is.
        overhead = MESSAGE_MS + 2 * max(self._copy_ms, statistics.median(self._rests))
        walls = sorted(self._walls[1:] or self._walls)
        # A quick quarter of the blocks counts: a busy host delays some, work that is hidden is in all of them.
        wall = walls[len(walls) // 4]
        claimed = estimate(self._blocks)
        believed = plausible(claimed.runtime_ms * (calls + 1), calls + 1, wall, overhead, HOST_MS)
        clock: Literal["events", "wall", "judge"] = "events" if self._device.type == "cuda" else "wall"
        if believed:
            return _timing(claimed, clock)
        judged = (statistics.median(walls) - self._copy_ms) / (calls + 1)
        return _timing(estimate([replace(block, candidate=judged) for block in self._blocks]), "judge")


def _keep(entry: InputSet, result: object) -> None:
    for target, source in zip(entry.expected, flatten(result)[1], strict=True):
        target.copy_(source)


def _is_lap(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value < 1e7


def _timing(result: Estimate, clock: Literal["events", "wall", "judge"]) -> Timing:
    return Timing(
        runtime_ms=result.runtime_ms,
        ref_runtime_ms=result.ref_runtime_ms,
        speedup=result.speedup,
        low=result.low,
        high=result.high,
        samples=result.samples,
        clock=clock,
    )
