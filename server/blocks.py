"""Blocks of timed calls: fresh contents, the candidate's claim, the reference's answer, and verification.

The acts that timing is made of, in no order of their own: see `timing` for the loop and `bounds` for the judge's
clock. Outputs are digested when the candidate says that it is done and compared once the reference has answered,
so that what is written late shows, whichever side goes first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from .laps import Laps, Stopwatch
from .layout import flatten
from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import Crashed, WrongOutput
from .reference import Reference
from .trials import make_room, settle
from .verify import Verifier

HOST_VERIFIED = 2


class Blocks:
    """Both sides of one contest. A block is one call on each of some sets."""

    def __init__(self, link: CandidateLink, reference: Reference, mailbox: Mailbox, verifier: Verifier) -> None:
        self.link = link
        self.mailbox = mailbox
        self.device = reference.device
        self._reference = reference
        self._verifier = verifier
        self._stopwatch = Stopwatch(reference.device)
        for entry in self.refill():
            _, outputs = flatten(reference(entry.private))
            entry.expected = [torch.zeros(o.shape, dtype=o.dtype, device=o.device) for o in outputs]

    def refill(self, count: int | None = None, share: bool = True) -> list[InputSet]:
        """Fresh contents in `count` sets (all by default), in random order; output slots poisoned."""
        sets = self.mailbox.sets
        entries = secrets.SystemRandom().sample(sets, min(count or len(sets), len(sets)))
        for entry in entries:
            self.mailbox.draw(entry, secrets.randbits(62))
            if share:
                self.mailbox.share(entry)
            self.mailbox.poison(entry)
        settle(self.device)
        return entries

    def claim(self, entries: Sequence[InputSet], flush: bool = False, hold: int = 0) -> Laps:
        """The candidate's calls, and what it claims for each; raises `Ended`."""
        settle(self.device)
        sets = [{"inputs": entry.inputs, "outputs": entry.outputs} for entry in entries]
        reply = self.link.call("time", sets=sets, flush=flush, hold=hold)
        return Laps(_laps(reply.get("laps"), len(sets)), _laps(reply.get("host"), len(sets)))

    def answer(self, entries: Sequence[InputSet], flush: bool = False, hold: int = 0) -> Laps:
        """The reference's calls on the same sets: what is expected, and how long each took."""
        if make_room(self.device):
            self._reference(entries[0].private)  # memory that was given back is taken again, untimed
        return self._stopwatch.laps(
            lambda index: self._reference(entries[index].private),
            lambda index, result: _keep(entries[index], result),
            range(len(entries)),
            flush,
            hold,
        )

    def digests(self, entries: Sequence[InputSet]) -> list[int]:
        return [int(digest) for digest in [self.mailbox.digest(entry) for entry in entries]]

    def verify(self, entries: Sequence[InputSet], digests: Sequence[int]) -> None:
        """Raises `Ended` if outputs are wrong, or are not what they were when the candidate was done."""
        count = len(entries) if self.device.type == "cuda" else min(HOST_VERIFIED, len(entries))
        pairs = list(zip(entries, digests, strict=True))
        for entry, digest in secrets.SystemRandom().sample(pairs, count):
            problem = self._verifier.problem(self.mailbox, entry)
            if problem is None and int(self.mailbox.digest(entry)) != digest:
                problem = "the output was written after the call had ended"
            if problem is not None:
                raise Ended(WrongOutput(stage="timing", message=f"in a timed call: {problem}"))


def _keep(entry: InputSet, result: object) -> None:
    for target, source in zip(entry.expected, flatten(result)[1], strict=True):
        target.copy_(source)


def _laps(value: object, count: int) -> list[float]:
    if isinstance(value, list) and len(value) == count and all(_is_lap(lap) for lap in value):
        return value
    raise Ended(Crashed(stage="timing", message="the candidate's process reported no timings"))


def _is_lap(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value < 1e7
