"""The judge's own clock over a candidate's calls: queued on the device behind a gate that the judge opens.

A candidate queues calls on sets whose inputs it has not got yet, behind a word of shared device memory, and
reports; then its process is stopped. The judge starts its own timer, writes the inputs, opens the gate, and stops
the timer when the candidate's last word says that all is done. So the time is the device's, whatever the host
does, and out of the candidate's reach: it can only be longer than the work. Outputs are digested at that moment,
before anything that comes late could land. A candidate that can't queue its calls (it waits for the device, or
launches more than the queue holds) gets an open gate and a time that holds its host's share: `queued` is False.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from . import driver
from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import TimedOut

QUEUE_S = 0.25
POLL_S = 50e-6
LONGEST_S = 2.0


@dataclass(frozen=True)
class Passage:
    """One block through the gate: the judge's ms for it (writing inputs and keeping outputs included)."""

    elapsed_ms: float
    calls: int
    queued: bool
    digests: list[int]


class Gate:
    """Times blocks of one candidate; holds two streams of the judge's context."""

    def __init__(self, link: CandidateLink, mailbox: Mailbox, device: torch.device) -> None:
        self._link = link
        self._mailbox = mailbox
        self._device = device
        self._release = torch.cuda.Stream(device)
        self._value = 0

    def run(self, entries: Sequence[InputSet], host_ms: float, expected_ms: float) -> Passage:
        """`entries` hold private inputs and poisoned slots; `host_ms` is what one call may take to queue.

        Raises `Ended` when the candidate fails or is not done long after `expected_ms`.
        """
        self._value += 1
        queued = self._link.start(
            "queue", self._wait_s(host_ms * len(entries)), sets=_places(entries), value=self._value
        )
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        stream = torch.cuda.current_stream(self._device)
        torch.cuda.synchronize(self._device)
        start.record()
        for entry in entries:
            self._mailbox.share(entry)
        driver.write(stream, self._mailbox.gate, self._value)
        driver.wait_for(stream, self._mailbox.done, self._value)
        end.record()
        digests = [self._mailbox.digest(entry) for entry in entries]
        try:
            if not queued:
                self._link.finish()
            self._await(end, max(LONGEST_S, 20e-3 * expected_ms * len(entries)))
        finally:
            # Whatever happened, no work of the judge's waits for a word that never comes.
            driver.write(self._release, self._mailbox.done, self._value)
        torch.cuda.synchronize(self._device)
        self._link.call("drain")
        return Passage(start.elapsed_time(end), len(entries), queued, [int(digest) for digest in digests])

    def _wait_s(self, queueing_ms: float) -> float:
        return QUEUE_S + 4e-3 * queueing_ms

    def _await(self, end: torch.cuda.Event, limit_s: float) -> None:
        deadline = time.monotonic() + min(limit_s, max(self._link.left_s, 0.0))
        while not end.query():
            if time.monotonic() > deadline:
                self._link.call("drain")  # an error of the device shows here
                raise Ended(TimedOut(stage="timing", seconds=limit_s, message="the queued calls did not end"))
            time.sleep(POLL_S)


def _places(entries: Sequence[InputSet]) -> list[dict[str, object]]:
    return [{"inputs": entry.inputs, "outputs": entry.outputs} for entry in entries]
