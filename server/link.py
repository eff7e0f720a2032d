"""The judge's end of the link to a candidate: one request, one reply, a deadline for each stage.

A candidate runs only while it owes a reply; the rest of the time the processes of its group are stopped, so that
they neither work ahead nor disturb what the judge measures (what they gave the device to do goes on). Only the
time it was waited for counts towards a deadline.
Whatever ends an evaluation early is raised as `Ended` with its outcome: the candidate died, passed its
deadline, or reported an error of a known kind. Replies are capped JSON; unknown kinds and malformed replies
count as a crash of the candidate, never as a fault of ours.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from .frames import FrameError, FrameTimeout, Peer
from .outcome import (
    BuildFailed,
    Crashed,
    Infrastructure,
    Outcome,
    OutOfMemory,
    Raised,
    Rejected,
    TimedOut,
    WrongOutput,
)
from .trace import clip

Where = Literal["compile", "correctness", "timing"]
HELLO_S = 60.0
END_S = 5.0


class Ended(Exception):
    """The evaluation is over; `outcome` says how. `lacking`: a process of ours did not find memory enough."""

    def __init__(self, outcome: Outcome, lacking: bool = False) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome
        self.lacking = lacking


class CandidateLink:
    """Talks to one candidate, whose process is `handle` (a pidfd). `enter` starts a stage and its deadline."""

    def __init__(self, peer: Peer, handle: int) -> None:
        self._peer = peer
        self._handle = handle
        self.pid = _pid(handle)
        self._stage: Where = "compile"
        self._limit_s = HELLO_S
        self._spent_s = 0.0
        self.trial: int | None = None

    def greet(self) -> None:
        """Wait until the candidate's process is set up; until then any fault is ours."""
        try:
            self._peer.receive(HELLO_S)
        except (FrameError, FrameTimeout) as error:
            message = f"the candidate's process could not be set up: {error}"
            raise self.ended(Infrastructure(message=message)) from None
        self._signal(signal.SIGSTOP)

    def enter(self, stage: Where, limit_s: float) -> None:
        self._stage, self._limit_s, self._spent_s = stage, limit_s, 0.0

    @property
    def stage(self) -> Where:
        return self._stage

    @property
    def left_s(self) -> float:
        return max(self._limit_s - self._spent_s, 0.0)

    def call(self, op: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """Send a request and return the reply; raises `Ended`."""
        self._send(op, fds, fields)
        return self.finish()

    def begin(self, op: str, **fields: Any) -> None:
        """Send a request; `finish` is to be called."""
        self._send(op, (), fields)

    def start(self, op: str, wait_s: float, **fields: Any) -> bool:
        """Send a request and wait for its reply a while; is it there? If not, `finish` is to be called."""
        self.begin(op, **fields)
        try:
            self._check(self._receive(min(wait_s, self.left_s)))
        except FrameTimeout:
            return False
        return True

    def finish(self) -> dict[str, Any]:
        """The reply to a request that was started."""
        try:
            return self._check(self._receive(self.left_s))
        except FrameTimeout:
            raise self.ended(TimedOut(stage=self._stage, seconds=self._limit_s)) from None

    def _send(self, op: str, fds: Sequence[int], fields: dict[str, Any]) -> None:
        self._signal(signal.SIGCONT)
        with self.waiting():
            try:
                self._peer.send({"op": op, **fields}, fds, self.left_s)
            except FrameTimeout:
                raise self.ended(TimedOut(stage=self._stage, seconds=self._limit_s)) from None
            except FrameError:
                raise self.ended(Crashed(stage=self._stage)) from None

    def _receive(self, wait_s: float) -> dict[str, Any]:
        with self.waiting():
            try:
                reply = self._peer.receive(wait_s)
            except FrameError:
                raise self.ended(Crashed(stage=self._stage)) from None
        self._signal(signal.SIGSTOP)
        return reply

    def _check(self, reply: dict[str, Any]) -> dict[str, Any]:
        if "error" in reply:
            raise self.ended(self._failure(str(reply["error"]), clip(str(reply.get("message", "")))))
        return reply

    def kill(self) -> None:
        """The process has served."""
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        """As `kill`; and wait until its memory has gone, and whatever its device still does."""
        self.kill()
        select.select([self._handle], [], [], END_S)

    def pause(self, seconds: float) -> None:
        """Let time pass while its device works on; raises `Ended` if its process has ended."""
        if select.select([self._handle], [], [], seconds)[0]:
            raise self.ended(Crashed(stage=self._stage))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What passes inside counts towards the stage's deadline."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent_s += time.monotonic() - started

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # the link tells
            signal.pidfd_send_signal(self._handle, number)
        if self.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def ended(self, outcome: Outcome) -> Ended:
        """To be raised: what happened at the other end, and whose fault that is."""
        return Ended(outcome)

    def _failure(self, kind: str, message: str) -> Outcome:
        match kind:
            case "violation":
                return Rejected(rule="guard", message=message)
            case "build":
                return BuildFailed(message=message)
            case "memory":
                return OutOfMemory(stage=self._stage, message=message)
            case "output":
                stage: Literal["correctness", "timing"] = "timing" if self._stage == "timing" else "correctness"
                return WrongOutput(stage=stage, message=message, trial=self.trial)
            case "raised":
                return Raised(stage=self._stage, message=message)
        return Crashed(stage=self._stage, message="the candidate's process sent something unexpected")


def _pid(handle: int) -> int | None:
    """Of the process behind a pidfd; valid until it is reaped. None where the system does not tell."""
    try:
        with open(f"/proc/self/fdinfo/{handle}") as listing:
            found = re.search(r"^Pid:\s+(\d+)$", listing.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


class TwinLink(CandidateLink):
    """To the process that runs the reference as candidates are run: its end is no fault of a submission."""

    def ended(self, outcome: Outcome) -> Ended:
        message = getattr(outcome, "message", "") or outcome.kind.replace("_", " ")
        lost = outcome.kind in ("crashed", "infrastructure")
        return Ended(
            Infrastructure(
                message=f"the reference failed in a process of its own: {message}"[:1000],
                retryable=lost,
                task=outcome.kind == "raised",
            ),
            lacking=outcome.kind == "out_of_memory",
        )
