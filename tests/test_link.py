"""The judge's end of a link and its gate: no claim moves a deadline, deaths are seen, nothing is left open."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernel_env.server.frames import CANDIDATE_CAP, FrameError, Peer
from kernel_env.server.gate import Gate
from kernel_env.server.link import CandidateLink, Ended, TwinLink
from kernel_env.server.words import Words


class Other:
    """A process that a handle stands for, and a thread of ours that answers in its stead."""

    def __init__(self, kind: type[CandidateLink]) -> None:
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(["sleep", "60"])
        self.handle = os.pidfd_open(self.process.pid)
        self.link = kind(Peer(ours, CANDIDATE_CAP, watch=[self.handle], trusted=False), self.handle)
        self.link.enter("timing", 0.3)
        self.refuses: str | None = None
        self.error = "raised"
        self.refusals = 1000
        self.asked: list[dict[str, Any]] = []
        self.words: Words | None = None
        self._peer = Peer(theirs, CANDIDATE_CAP)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            try:
                request, fds = self._peer.receive_with_fds()
            except FrameError:
                return
            for fd in fds:
                os.close(fd)
            self.asked.append(request)
            refused = request["op"] == self.refuses and self.refusals > 0
            self.refusals -= refused
            self._peer.send({"error": self.error} if refused else {})

    def close(self) -> None:
        self.process.kill()
        self.link._peer.close()
        self._thread.join()
        self._peer.close()
        self.process.wait()
        os.close(self.handle)


@pytest.fixture(params=[CandidateLink])
def other(request: pytest.FixtureRequest) -> Iterator[Other]:
    other = Other(request.param)
    yield other
    other.close()


def gate(other: Other) -> Gate:
    return Gate(other.link, None, torch.device("cpu"))  # type: ignore[arg-type]


def test_a_gate_that_is_refused_leaves_nothing_open(other: Other) -> None:
    other.refuses = "gate"
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(Ended):
            gate(other)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_claim_moves_no_deadline(other: Other) -> None:
    passage = gate(other)
    passage._value = 1
    started = time.monotonic()
    with other.link.waiting():
        assert not passage._await(1e6)
    assert time.monotonic() - started < 10.0
    assert other.link.left_s == 0.0
    passage.close()


def test_a_death_is_seen_while_its_device_is_waited_for(other: Other) -> None:
    other.link.enter("timing", 60.0)
    passage = gate(other)
    passage._value = 1
    other.process.kill()
    with pytest.raises(Ended) as end:
        passage._await(60.0)
    assert end.value.outcome.kind == "crashed"
    passage.close()


def test_an_end_is_waited_for(other: Other) -> None:
    other.link.end()
    assert other.process.poll() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("other", "kind"), [(CandidateLink, "wrong_output"), (TwinLink, "infrastructure")], indirect=["other"]
)
def test_calls_that_never_say_done_are_their_sides_fault(other: Other, kind: str) -> None:
    passage = gate(other)
    passage._value = 1
    with pytest.raises(Ended) as end:
        passage._drained(time.perf_counter())
    assert end.value.outcome.kind == kind
    passage.close()
