"""The judge's bound on what a candidate claims: blocks that only the judge's own clocks measure.

Between the timed blocks both sides take one more each, with fresh contents and verified outputs, which the judge
times from outside: on CUDA through its gate (see `gate`), where the host plays no part, on a CPU by the wall clock
round a request. Two clocks stop such a block: one when the process says that it is done, one when the judge has
seen the outputs, since a word can come before the work. What a block holds besides the calls (writing inputs,
keeping and reading outputs, messages, gaps) is known from the reference's twin, whose word on its own calls is
true. What is left of the candidate's block is what its calls can't have been quicker than: a claim below that is
replaced by it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .blocks import Blocks
from .gate import Gate
from .link import Ended
from .mailbox import InputSet

SHARE = {"cuda": 0.95, "cpu": 0.8}
LAUNCHING_SHARE = 0.85
"""Where the host needs longer than the device, two processes' thousands of launches differ by more (up to 9 %)."""
DONE_SLACK_MS = {"cuda": 0.06, "cpu": 2.0}
SEEN_SLACK_MS = {"cuda": 0.5, "cpu": 2.0}
EXPOSED_SHARE = 0.8
QUEUED_HOST_MS = 4.0


@dataclass(frozen=True)
class Outside:
    """One block on the judge's clocks, in ms; `exposed` if it holds the host's time to launch."""

    done_ms: float
    seen_ms: float
    exposed: bool
    digests: list[int]


@dataclass(frozen=True)
class Net:
    """What is left for one call, in ms, by either clock."""

    done: float
    seen: float
    exposed: bool


class Bound:
    """`host_ms` is the reference's time to launch a call."""

    def __init__(self, blocks: Blocks, host_ms: float) -> None:
        self._blocks = blocks
        self._kind = blocks.device.type
        self._host_ms = host_ms
        self._count = len(blocks.mailbox.sets)
        self._gates: list[Gate] = []
        if self._kind == "cuda":
            self._count = max(1, min(self._count, int(QUEUED_HOST_MS / max(host_ms, 1e-3))))
            self._open_gates()
        self._share = SHARE[self._kind]
        self._besides: list[Net] = []
        self._candidate: list[Outside] = []

    def measure(self, claimed_ms: float, reference_ms: float) -> None:
        """A block of each side, of which a call takes about as long as named. Raises `Ended`."""
        if self._gates and self._host_ms > reference_ms:
            self._share = LAUNCHING_SHARE
        self._besides.append(self._measure_twin(reference_ms))
        self._candidate.append(self._measure_candidate(claimed_ms))

    def judged(self, claimed_ms: float) -> float | None:
        """None if the calls can have taken `claimed_ms` on average, else the judge's own figure (ms)."""
        nets = [self._net(outside) for outside in self._candidate]
        if claimed_ms >= _quick([self._least(net) for net in nets]):
            return None
        done = statistics.median(net.done for net in nets)
        seen = statistics.median(net.seen for net in nets) - SEEN_SLACK_MS[self._kind] / self._count
        return max(done, seen)

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

    def _measure_twin(self, reference_ms: float) -> Net:
        entries = self._refill()
        if self._gates:
            self._blocks.make_room()
            self._blocks.wake(entries)
            outside = self._pass(self._gates[0], entries, reference_ms)
        else:
            outside = self._walled(lambda: self._blocks.reference(entries, keep=True), entries)
        done, seen = outside.done_ms / self._count, outside.seen_ms / self._count
        return Net(max(done - reference_ms, 0.0), max(seen - reference_ms, 0.0), outside.exposed)

    def _measure_candidate(self, claimed_ms: float) -> Outside:
        entries = self._refill()
        if self._gates:
            if self._blocks.scarce:
                self._blocks.make_room()
            outside = self._pass(self._gates[1], entries, claimed_ms)
        else:
            outside = self._walled(lambda: self._blocks.claim(entries), entries)
        self._blocks.verify(entries, outside.digests)
        return outside

    def _net(self, outside: Outside) -> Net:
        return Net(
            outside.done_ms / self._count - statistics.median(net.done for net in self._besides),
            outside.seen_ms / self._count - statistics.median(net.seen for net in self._besides),
            outside.exposed,
        )

    def _least(self, net: Net) -> float:
        """What a call must at least have taken (ms)."""
        if net.exposed:
            return EXPOSED_SHARE * net.done - self._host_ms
        done = self._share * net.done - DONE_SLACK_MS[self._kind] / self._count
        seen = self._share * net.seen - SEEN_SLACK_MS[self._kind] / self._count
        return max(done, seen)

    def _refill(self) -> list[InputSet]:
        return self._blocks.refill(self._count, share=not self._gates)

    def _pass(self, gate: Gate, entries: Sequence[InputSet], expected_ms: float) -> Outside:
        passage = gate.run(entries, self._host_ms, expected_ms)
        return Outside(passage.done_ms, passage.seen_ms, not passage.queued, passage.digests)

    def _walled(self, act: Callable[[], object], entries: Sequence[InputSet]) -> Outside:
        start = time.perf_counter()
        act()
        done_ms = (time.perf_counter() - start) * 1e3
        digests = self._blocks.digests(entries)
        return Outside(done_ms, (time.perf_counter() - start) * 1e3, False, digests)


def _quick(times: Sequence[float]) -> float:
    """A quick quarter's: a busy host delays some blocks, work that is hidden is in all of them."""
    return sorted(times)[len(times) // 4]
