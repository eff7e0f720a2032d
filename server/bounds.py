"""The judge's bound on what a candidate claims: blocks that only the judge's own clock measures.

Between the timed blocks both sides take one more each, with fresh contents and verified outputs, which the judge
times from outside: on CUDA through its gate (see `gate`), where the host plays no part, on a CPU by the wall clock
round a request. What such a block holds besides the calls (writing inputs, keeping outputs, messages, gaps) is
known from the reference's twin, whose word on its own calls is true. What is left of the candidate's block is
what its calls can't have been quicker than: a claim below that is replaced by it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import Blocks
from .gate import Gate
from .link import Ended
from .mailbox import InputSet

SHARE = {"cuda": 0.95, "cpu": 0.8}
SLACK_MS = {"cuda": 0.06, "cpu": 2.0}
EXPOSED_SHARE = 0.8
QUEUED_HOST_MS = 4.0


@dataclass(frozen=True)
class Outside:
    """One block on the judge's clock, in ms; `exposed` if it holds the host's time to launch."""

    elapsed_ms: float
    exposed: bool
    digests: list[int]


class Bound:
    """`host_ms` is the reference's time to launch a call, `hidden_ms` what `laps` hides of the host's."""

    def __init__(self, blocks: Blocks, host_ms: float, hidden_ms: float) -> None:
        self._blocks = blocks
        self._kind = blocks.device.type
        self._host_ms = host_ms
        self._hidden_ms = hidden_ms
        self._count = len(blocks.mailbox.sets)
        self._gates: list[Gate] = []
        if self._kind == "cuda":
            self._count = max(1, min(self._count, int(QUEUED_HOST_MS / max(host_ms, 1e-3))))
            self._open_gates()
        self._twin: list[float] = []
        self._candidate: list[Outside] = []

    def measure(self, claimed_ms: float, reference_ms: float) -> None:
        """A block of each side, of which a call takes about as long as named. Raises `Ended`."""
        entries = self._refill()
        self._blocks.wake(entries)
        besides_ms = self._time(0, entries, reference_ms).elapsed_ms / self._count - reference_ms
        self._twin.append(max(besides_ms, 0.0))
        entries = self._refill()
        outside = self._time(1, entries, claimed_ms)
        self._blocks.verify(entries, outside.digests)
        self._candidate.append(outside)

    def judged(self, claimed_ms: float) -> float | None:
        """None if a call can have taken `claimed_ms`, else the judge's own figure (ms)."""
        if claimed_ms >= _quick([self._least(outside) for outside in self._candidate]):
            return None
        return statistics.median(self._net(outside) for outside in self._candidate)

    def close(self) -> None:
        for gate in self._gates:
            gate.close()

    def _open_gates(self) -> None:
        try:
            for link in (self._blocks.twin, self._blocks.candidate):
                self._gates.append(Gate(link, self._blocks.mailbox, self._blocks.device))
        except Ended:
            self.close()
            raise

    def _least(self, outside: Outside) -> float:
        """What a call must at least have taken (ms)."""
        if outside.exposed:
            return EXPOSED_SHARE * self._net(outside) - self._hidden_ms - self._host_ms
        return SHARE[self._kind] * self._net(outside) - SLACK_MS[self._kind] / self._count

    def _net(self, outside: Outside) -> float:
        return outside.elapsed_ms / self._count - statistics.median(self._twin)

    def _refill(self) -> list[InputSet]:
        return self._blocks.refill(self._count, share=not self._gates)

    def _time(self, side: int, entries: Sequence[InputSet], expected_ms: float) -> Outside:
        if self._gates:
            passage = self._gates[side].run(entries, self._host_ms, expected_ms)
            return Outside(passage.elapsed_ms, not passage.queued, passage.digests)
        start = time.perf_counter()
        if side:
            self._blocks.claim(entries)
        else:
            self._blocks.reference(entries, keep=True)
        elapsed_ms = (time.perf_counter() - start) * 1e3
        return Outside(elapsed_ms, False, self._blocks.digests(entries))


def _quick(times: Sequence[float]) -> float:
    """A quick quarter's: a busy host delays some blocks, work that is hidden is in all of them."""
    return sorted(times)[len(times) // 4]
