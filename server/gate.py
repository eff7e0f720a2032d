"""The judge's own clock over a candidate's calls: queued on the device behind a gate that the judge opens.

A candidate queues calls on sets whose inputs it has not got yet, behind a word of shared memory, and reports; then
its process is stopped. The judge starts its own timer, writes the inputs, opens the gate, and stops the timer when
the candidate's last word says that all is done. So the time is the device's, whatever the candidate's host does,
and out of the candidate's reach: opening the gate itself brings it nothing, as the inputs come later. Saying done
too early leaves outputs that are not there when they are digested, or are there only because the digests had to
wait for the device: a second clock stops when they have been read. A candidate that can't queue its calls (it
waits for the device, or launches more than the queue holds) gets an open gate and a time that holds its host's
share: `queued` is False.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import WrongOutput
from .words import Words

QUEUE_S = 0.25
SPIN_S = 0.5
POLL_S = 200e-6
LONGEST_S = 2.0


@dataclass(frozen=True)
class Passage:
    """One block through the gate: the judge's ms from before it writes the inputs.

    `done_ms` until the process says that all is done, its outputs kept; `seen_ms` until the judge has read them.
    """

    done_ms: float
    seen_ms: float
    queued: bool
    digests: list[int]


class Gate:
    """Times blocks of one candidate."""

    def __init__(self, link: CandidateLink, mailbox: Mailbox, device: torch.device) -> None:
        self._link = link
        self._mailbox = mailbox
        self._device = device
        self._words = Words.create()
        self._value = 0
        try:
            link.call("gate", [self._words.fd])
        except Ended:
            self._words.close()
            raise

    def run(self, entries: Sequence[InputSet], host_ms: float, expected_ms: float) -> Passage:
        """`entries` hold private inputs and poisoned slots; `host_ms` is what one call may take to queue.

        Raises `Ended` when the candidate fails or does not end.
        """
        self._value += 1
        sets = [{"inputs": entry.inputs, "outputs": entry.outputs} for entry in entries]
        wait_s = QUEUE_S + 4e-3 * host_ms * len(entries)
        queued = self._link.start("queue", wait_s, sets=sets, value=self._value)
        torch.cuda.synchronize(self._device)
        start = time.perf_counter()
        for entry in entries:
            self._mailbox.share(entry)
        torch.cuda.synchronize(self._device)
        self._words.open_gate(self._value)
        if not queued:
            self._link.finish()
        with self._link.waiting():
            done = self._await(max(LONGEST_S, 20e-3 * expected_ms * len(entries)))
        done_ms = _since(start)
        if not done:
            done_ms = self._drained(start)
        digests = [int(digest) for digest in [self._mailbox.digest(entry) for entry in entries]]
        seen_ms = _since(start)
        self._link.call("drain")
        return Passage(done_ms, seen_ms, queued, digests)

    def _await(self, limit_s: float) -> bool:
        """Is all done within the limit (which may rest on a claim) and the stage's?"""
        limit_s = min(limit_s, self._link.left_s)
        started = time.perf_counter()
        while self._words.done() != self._value:
            waited = time.perf_counter() - started
            if waited > limit_s:
                return False
            if waited > SPIN_S:
                self._link.pause(POLL_S)
        return True

    def _drained(self, start: float) -> float:
        """The ms until the device is done: calls that take long end here, endless ones and faults show."""
        self._link.call("drain")
        if self._words.done() != self._value:
            message = "calls that were queued on the device did not run to their end"
            raise self._link.ended(WrongOutput(stage="timing", message=message))
        return _since(start)

    def close(self) -> None:
        self._words.open_gate(self._value)  # a process that could not queue all of its calls may go on
        self._words.close()


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
