"""The judge's bound on what a candidate claims: blocks that only the judge's own clock measures.

A bound takes blocks of its own between the timed ones, with fresh contents and verified outputs, and answers one
question: can a call have taken as little as is claimed? If not, the judge's own figure stands. On CUDA the calls
pass the judge's gate (see `gate`), so that the bound is tight and the host plays no part. On a CPU it is the wall
clock round a request, which is as noisy as the host: what the reference's own blocks hold besides its calls is
allowed for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch

from .blocks import Blocks
from .gate import Gate, Passage
from .mailbox import InputSet
from .trials import settle

GATE_SHARE = 0.95
GATE_MS = 0.06
GAPS_SHARE = 0.25  # the more kernels a call has, the more the gaps between them vary
EXPOSED_SHARE = 0.8
QUEUED_HOST_MS = 4.0
WALL_SHARE = 0.8
MESSAGE_MS = 2.0

T = TypeVar("T")


class Bound(Protocol):
    def measure(self, claimed_ms: float) -> None:
        """One more block; `claimed_ms` is about what a call takes. Raises `Ended`."""

    def judged(self, claimed_ms: float) -> float | None:
        """None if a call can have taken `claimed_ms`, else the judge's own figure (ms)."""

    def close(self) -> None: ...


class GateBound:
    """On CUDA. `host_ms` is the reference's time to launch a call, `hidden_ms` what `laps` hides of it."""

    def __init__(self, blocks: Blocks, host_ms: float, hidden_ms: float) -> None:
        self._blocks = blocks
        self._gate = Gate(blocks.link, blocks.mailbox, blocks.device)
        self._host_ms = host_ms
        self._hidden_ms = hidden_ms
        self._count = max(1, min(len(blocks.mailbox.sets), int(QUEUED_HOST_MS / max(host_ms, 1e-3))))
        self._copies_ms = _copies_ms(blocks)
        self._passages: list[Passage] = []

    def measure(self, claimed_ms: float) -> None:
        entries = self._blocks.refill(self._count, share=False)
        passage = self._gate.run(entries, self._host_ms, claimed_ms)
        self._passages.append(passage)
        self._blocks.answer(entries)
        self._blocks.verify(entries, passage.digests)

    def judged(self, claimed_ms: float) -> float | None:
        if claimed_ms >= _quick([self._least(passage) for passage in self._passages]):
            return None
        return statistics.median((self._net(p) - GATE_MS / 2) / p.calls for p in self._passages)

    def close(self) -> None:
        self._gate.close()

    def _least(self, passage: Passage) -> float:
        """What a call must at least have taken (ms)."""
        if passage.queued:
            gaps_ms = GAPS_SHARE * self._host_ms
            return (GATE_SHARE * self._net(passage) - GATE_MS) / passage.calls - gaps_ms
        return EXPOSED_SHARE * self._net(passage) / passage.calls - self._hidden_ms - self._host_ms

    def _net(self, passage: Passage) -> float:
        return passage.elapsed_ms - passage.calls * self._copies_ms


class WallBound:
    """On a CPU."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._copies_ms = _copies_ms(blocks)
        self._calls = len(blocks.mailbox.sets)
        self._walls: list[float] = []
        self._rests: list[float] = []

    def measure(self, claimed_ms: float) -> None:
        entries = self._blocks.refill()
        _, wall_ms = _walled(lambda: self._blocks.claim(entries))
        digests = self._blocks.digests(entries)
        laps, reference_ms = _walled(lambda: self._blocks.answer(entries))
        self._blocks.verify(entries, digests)
        self._walls.append(wall_ms)
        self._rests.append(reference_ms - sum(laps.device))

    def judged(self, claimed_ms: float) -> float | None:
        copies_ms = self._calls * self._copies_ms
        overhead_ms = MESSAGE_MS + 2 * max(copies_ms, statistics.median(self._rests))
        if claimed_ms >= WALL_SHARE * (_quick(self._walls) - overhead_ms) / self._calls:
            return None
        return (statistics.median(self._walls) - copies_ms) / self._calls

    def close(self) -> None:
        pass


def _quick(times: Sequence[float]) -> float:
    """A quick quarter's: a busy host delays some blocks, work that is hidden is in all of them."""
    return sorted(times)[len(times) // 4]


def _walled(act: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = act()
    return result, (time.perf_counter() - start) * 1e3


def _copies_ms(blocks: Blocks) -> float:
    """What writing a set's inputs and keeping its outputs costs: the best of three, on the judge's clock."""
    entries = blocks.mailbox.sets

    def copy() -> None:
        settle(blocks.device)
        for entry in entries:
            if blocks.device.type == "cuda":
                blocks.mailbox.share(entry)
            _copy_out(blocks, entry)
        settle(blocks.device)

    return min(_walled(copy)[1] for _ in range(3)) / len(entries)


def _copy_out(blocks: Blocks, entry: InputSet) -> None:
    for target, source in zip(blocks.mailbox.answers(entry), entry.expected, strict=True):
        torch.Tensor.copy_(target, source)
