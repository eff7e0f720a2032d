"""Blocks of timed calls: fresh contents, what either side claims for its calls, what is expected, verification.

The acts that timing is made of, in no order of their own: see `timing` for the loop and `bounds` for the judge's
clock. The reference is timed in a twin, a process of the same kind as the candidate's, so that what a process
costs or gains is alike on both sides; what is expected the judge computes itself. A candidate's outputs are
digested when it says that it is done and compared afterwards, so that what is written late shows. Right answers
never enter the shared memory while a candidate may still be asked for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal, TypeGuard

import torch
from pydantic import ValidationError

from . import hardware
from .laps import Laps
from .link import CandidateLink, Ended, TwinLink
from .mailbox import InputSet, Mailbox
from .outcome import Crashed, WrongOutput
from .provenance import Record
from .reference import Reference
from .trials import ROOM_BYTES, SPARE_BYTES, expected_outputs, settle
from .verify import Verifier

HOST_VERIFIED = 2


class Blocks:
    """Both sides of one contest. A block is one call on each of some sets, `usual` in number."""

    def __init__(
        self,
        candidate: CandidateLink,
        twin: TwinLink,
        reference: Reference,
        mailbox: Mailbox,
        verifier: Verifier,
    ) -> None:
        self.candidate = candidate
        self.twin = twin
        self.mailbox = mailbox
        self.device = reference.device
        self._reference = reference
        self._verifier = verifier
        self._trimmed = False
        self.usual = len(mailbox.sets)
        self.scarce = False
        self._room = _room(self.device)

    def refill(self, count: int | None = None, share: bool = True) -> list[InputSet]:
        """Fresh contents in `count` sets (all by default), in random order; output slots poisoned."""
        sets = self.mailbox.sets
        entries = secrets.SystemRandom().sample(sets, min(count or len(sets), len(sets)))
        for entry in entries:
            self.mailbox.draw(entry, secrets.randbits(62))
            if share:
                self.mailbox.share(entry)
            self.mailbox.poison(entry)
        return entries

    def introduce(self, link: TwinLink) -> None:
        """The process's first call, made as a candidate's is: in a trial, whose outputs stay in the process.

        Where the first call is a timed one, kernels follow each other more slowly ever after: networks of a
        hundred take 2 to 5 % longer (H200, torch 2.11).
        """
        (entry,) = self.refill(1)
        settle(self.device)
        link.call("trial", inputs=entry.inputs, outputs=entry.outputs, keep=False)

    def claim(self, entries: Sequence[InputSet], flush: bool = False, hold: int = 0) -> Laps:
        """The candidate's calls, and what it claims for each; raises `Ended`."""
        self.make_room()
        return _time(self.candidate, entries, flush, hold, keep=True)

    def bare(self, entries: Sequence[InputSet]) -> Laps:
        """The candidate's calls without the guard, for the host's time alone; to be called when all is timed."""
        self.make_room()
        return _time(self.candidate, entries, flush=False, hold=0, keep=True, how="bare")

    def record(self, entries: Sequence[InputSet], profiled: bool = False) -> Record:
        """What the candidate's calls launch, as its process tells; to be called last."""
        self.make_room()
        return _record(self.candidate, entries, profiled)

    def control(self, entries: Sequence[InputSet]) -> Record:
        """The same of the reference's, to see whether launches can be recorded here at all."""
        return _record(self.twin, entries)

    def reference(
        self, entries: Sequence[InputSet], flush: bool = False, hold: int = 0, keep: bool = False
    ) -> Laps:
        """The reference's calls in its twin; its outputs are of no use, and `keep` is for what keeping costs."""
        self.make_room()
        self.wake(entries)
        return _time(self.twin, entries, flush, hold, keep)

    def wake(self, entries: Sequence[InputSet]) -> None:
        """The twin takes again, by a block that does not count, what memory it has given back."""
        if self._trimmed:
            self._trimmed = False
            self.restore(entries)
            settle(self.device)
            _time(self.twin, entries, False, 0, keep=False)

    def restore(self, entries: Sequence[InputSet]) -> None:
        """The shared inputs as they were: either side may have changed them."""
        for entry in entries:
            self.mailbox.share(entry)

    def digests(self, entries: Sequence[InputSet]) -> list[int]:
        return [int(digest) for digest in [self.mailbox.digest(entry) for entry in entries]]

    def verify(self, entries: Sequence[InputSet], digests: Sequence[int]) -> None:
        """Raises `Ended` if outputs are wrong, or are not what they were when the candidate was done."""
        count = len(entries) if self.device.type == "cuda" else min(HOST_VERIFIED, len(entries))
        pairs = list(zip(entries, digests, strict=True))
        for entry, digest in secrets.SystemRandom().sample(pairs, count):
            problem = self._problem(entry)
            if problem is None and int(self.mailbox.digest(entry)) != digest:
                problem = "the output was written after the call had ended"
            if problem is not None:
                raise Ended(WrongOutput(stage="timing", message=f"in a timed call: {problem}"))

    def _problem(self, entry: InputSet) -> str | None:
        """What is wrong with a set's outputs; memory that only the twin keeps is no reason not to find out."""
        try:
            return self._compared(entry)
        except torch.OutOfMemoryError:
            self._trim()
            torch.cuda.empty_cache()
            return self._compared(entry)

    def _compared(self, entry: InputSet) -> str | None:
        entry.expected = expected_outputs(self._reference, entry.private)
        try:
            return self._verifier.problem(self.mailbox, entry)
        finally:
            entry.expected = []

    def _trim(self) -> None:
        self.twin.call("trim")
        self._trimmed = True

    def give_way(self) -> bool:
        """From here on neither judge nor twin only caches memory; False where that has been so, or can't be."""
        if self.scarce or self.device.type != "cuda":
            return False
        self.scarce, self._room = True, hardware.memory_bytes(self.device)
        return True

    def make_room(self) -> None:
        """The judge is done; where a process may come to lack memory, neither judge nor twin only caches any."""
        if settle(self.device, self._room) or self.scarce:
            self._trim()


def _room(device: torch.device) -> int:
    """Bytes kept free, as many as the judge needed: a process may keep no memory from one call to the next."""
    if device.type != "cuda":
        return 0
    return min(ROOM_BYTES, torch.cuda.max_memory_allocated(device) + SPARE_BYTES)


def _time(
    link: CandidateLink,
    entries: Sequence[InputSet],
    flush: bool,
    hold: int,
    keep: bool,
    how: Literal["timed", "bare"] = "timed",
) -> Laps:
    reply = _ask(link, entries, flush, hold, keep, how)
    laps, host = reply.get("laps"), reply.get("host")
    if _are_laps(laps, len(entries)) and _are_laps(host, len(entries)):
        return Laps(laps, host)
    raise link.ended(Crashed(stage="timing", message="the candidate's process reported no timings"))


def _record(link: CandidateLink, entries: Sequence[InputSet], profiled: bool = False) -> Record:
    how = "profiled" if profiled else "recorded"
    reply = _ask(link, entries, flush=False, hold=0, keep=True, how=how)
    try:
        return Record.model_validate(reply.get("record"))
    except ValidationError:
        message = "the candidate's process told nothing that is a record of its kernels"
        raise link.ended(Crashed(stage="timing", message=message)) from None


def _ask(
    link: CandidateLink, entries: Sequence[InputSet], flush: bool, hold: int, keep: bool, how: str
) -> dict[str, Any]:
    sets = [{"inputs": entry.inputs, "outputs": entry.outputs} for entry in entries]
    return link.call("time", sets=sets, flush=flush, hold=hold, keep=keep, how=how)


def _are_laps(value: object, count: int) -> TypeGuard[list[float]]:
    return isinstance(value, list) and len(value) == count and all(_is_lap(lap) for lap in value)


def _is_lap(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value < 1e7
