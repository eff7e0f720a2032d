"""The judge's end of the link to a candidate: one request, one reply, a deadline for each stage.

Whatever ends an evaluation early is raised as `Ended` with its outcome: the candidate died, passed its
deadline, or reported an error of a known kind. Replies are capped JSON; unknown kinds and malformed replies
count as a crash of the candidate, never as a fault of ours.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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


class Ended(Exception):
    """The evaluation is over; `outcome` says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


class CandidateLink:
    """Talks to one candidate. `enter` starts a stage and its deadline."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stage: Where = "compile"
        self._started = time.monotonic()
        self._limit_s = HELLO_S
        self.trial: int | None = None

    def greet(self) -> None:
        """Wait until the candidate's process is set up; until then any fault is ours."""
        try:
            self._peer.receive(HELLO_S)
        except (FrameError, FrameTimeout) as error:
            message = f"the candidate's process could not be set up: {error}"
            raise Ended(Infrastructure(message=message)) from None

    def enter(self, stage: Where, limit_s: float) -> None:
        self._stage, self._limit_s, self._started = stage, limit_s, time.monotonic()

    @property
    def left_s(self) -> float:
        return self._limit_s - (time.monotonic() - self._started)

    def call(self, op: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """Send a request and return the reply; raises `Ended`."""
        try:
            self._peer.send({"op": op, **fields}, fds, max(self.left_s, 0.0))
            reply = self._peer.receive(max(self.left_s, 0.0))
        except FrameTimeout:
            outcome = TimedOut(stage=self._stage, seconds=self._limit_s)
            raise Ended(outcome) from None
        except FrameError:
            raise Ended(Crashed(stage=self._stage)) from None
        if "error" in reply:
            raise Ended(self._failure(str(reply["error"]), clip(str(reply.get("message", "")))))
        return reply

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
