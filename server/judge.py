"""The trusted process of one device: reference, secret seeds, expected outputs, comparison, clock, verdict.

`python -m kernel_env.server.judge FD PARENT DEVICE [PACE_US]` serves the worker over an inherited socket, one
evaluation at a time; each request brings the candidate's link and process handle. `PACE_US` is what an earlier one
found out about the device (see `context`). Invariants: nothing a candidate sends is unpickled or evaluated; every
wait on a candidate also waits on its process; a fault of the task, the device or this process is
`Infrastructure`. A device context that has gone bad ends this process: the worker starts anew.
"""

from __future__ import annotations

import gc
import hashlib
import os
import secrets
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch.utils.flop_counter import FlopCounterMode

from . import context, draws, floors, hardware, kin, lacking, landlock, peaks, profile, roofline, sandbox
from .alike import match, pace_of, short_kernels
from .attribute import attribute
from .baseline import Baselines
from .blocks import Blocks
from .calibration import Calibration, Calibrations
from .compare import compare
from .construct import Construction, construct
from .frames import CANDIDATE_CAP, TRUSTED_CAP, FrameError, Peer
from .layout import LayoutError
from .link import CandidateLink, Ended, TwinLink
from .mailbox import Mailbox
from .outcome import (
    ImpossibleTiming,
    Infrastructure,
    Outcome,
    Passed,
    Profile,
    Rejected,
    Roofline,
    Timing,
)
from .provenance import Record
from .reference import Reference, TaskFault
from .timing import Contest
from .trials import planned, run_trials
from .verify import Verifier

BASELINE_MARGIN_S = 15.0
SHORTEST_BASELINE_S = 20.0
INTERPRETED = (
    "Triton ran in its interpreter, as this machine has no CUDA device:"
    " the result is checked, the time is not measured"
)

Link = TypeVar("Link", bound=CandidateLink)


@dataclass(frozen=True)
class Known:
    """What was found out about tasks, kept for their next submissions; and `pace_us`, see `context.limit`."""

    baselines: Baselines = field(default_factory=Baselines)
    calibrations: Calibrations = field(default_factory=Calibrations)
    pace_us: float = 0.0


class Evaluation:
    """One submission's way through the judge."""

    def __init__(
        self,
        request: dict[str, Any],
        link: CandidateLink,
        twin: TwinLink | None,
        compiled: TwinLink | None,
        device: torch.device,
        report: Peer,
        known: Known,
    ) -> None:
        self._request = request
        self._link = link
        self._twin = twin
        self._compiled = compiled
        self._known = known
        self._end = time.monotonic() + request["left_s"]
        self._device = device
        self._report = report
        self._mailbox: Mailbox | None = None
        self._roofline: Roofline | None = None
        self._peaks: peaks.Peak | None = None
        self._work = profile.Work()
        self._moved: floors.Traffic | None = None
        self._pace_us = 0.0
        self._candidate: Construction | None = None
        self.durations: dict[str, float] = {}
        self.peak_bytes: int | None = None
        self.seeds: list[int] = []

    def run(self) -> Outcome:
        outcome = self._outcome()
        with self._stage("ending"):
            if outcome.kind != "crashed":  # how that ended is still to be found out
                self._dismiss()
            self._tidy()
        return outcome

    def _outcome(self) -> Outcome:
        try:
            return self._run()
        except Ended as end:
            return self._blamed(end.outcome) if end.lacking else end.outcome
        except (TaskFault, LayoutError) as fault:
            return Infrastructure(message=str(fault), retryable=False, task=True)
        except lacking.ERRORS as error:
            if not lacking.says_so(error):
                raise
            message = f"the judge ran out of memory: {error}"[:500]
            traceback.clear_frames(error.__traceback__)  # they hold what was made of the reference
            self._candidate = None
            return self._blamed(Infrastructure(message=message, retryable=False))

    def _dismiss(self) -> None:
        """The processes have served; they end while the judge puts things in order, for that takes as long."""
        for link in (self._link, self._twin, self._compiled):
            if link is not None:
                link.kill()

    def _tidy(self) -> None:
        if self._mailbox is not None:
            self._mailbox.close()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _blamed(self, fault: Outcome) -> Outcome:
        return lacking.blamed(fault, self._link, self._device, self._needed)

    def _needed(self) -> int:
        """Bytes that the reference needs; tried without the submission where it got in the way before."""
        if self._mailbox is None:
            torch.cuda.empty_cache()
            self._prepare(self._drawn())
        return torch.cuda.max_memory_allocated(self._device)

    def _run(self) -> Outcome:
        with self._stage("candidate"):
            self._link.greet()
            self._pace_us = pace_of(self._link)
            reference, calibration = self._reference()
            mailbox = self._prepare(reference)
            twin, note = self._construct(reference, mailbox)
        with self._stage("correctness"):
            self._link.enter("correctness", self._request["correctness_timeout_s"])
            verifier = Verifier(reference, self._request["atol"], self._request["rtol"], calibration)
            families = planned(self._request["trials"], reference, calibration)
            self.seeds += [secrets.randbits(62) for _ in families]
            draws = list(zip(self.seeds[1:], families, strict=True))
            run_trials(self._link, reference, mailbox, verifier, draws, note)
        self._look_round(timed=False)
        if twin is None or self._twin is None:
            return Passed(note=f"{INTERPRETED}. {profile.NEEDS_CUDA}" if self._request["profile"] else INTERPRETED)
        with self._stage("quiet"):
            self._report.receive()  # nobody makes processes on this device from here on
        with self._stage("timing"):
            twin.finish(mailbox)
            for link in (self._twin, self._link):
                link.enter("timing", self._request["timing_timeout_s"])
            blocks = Blocks(self._link, self._twin, reference, mailbox, verifier)
            blocks.introduce(self._twin)
            timing = self._timed(blocks)
        self._look_round(timed=True)
        doubt = self._doubt(timing)
        if doubt is not None:
            return doubt
        record = None
        if self._request["record"]:
            with self._stage("provenance"):
                record = attribute(blocks, timing, self._request["profile"])
        timing, note = self._beside_compiled(timing, reference, mailbox, verifier)
        found, why = self._profile(record, timing)
        note = " ".join(filter(None, (note, why)))
        return Passed(timing=timing, roofline=self._roofline, profile=found, note=note)

    def _timed(self, blocks: Blocks) -> Timing:
        """Once more from the beginning if the candidate lacked memory that judge and twin only cached."""
        try:
            return Contest(blocks).run(self._request["timing_budget_s"])
        except Ended as end:
            if end.outcome.kind != "out_of_memory" or not blocks.give_way():
                raise
        return Contest(blocks).run(self._request["timing_budget_s"])

    def _construct(self, reference: Reference, mailbox: Mailbox) -> tuple[Construction | None, str]:
        """The twin's, which goes on beside the candidate's trials, and the note on the candidate's.

        Whether contexts matter is seen when the submission is stopped, and its device done.
        """
        limit_s, twin = self._request["build_timeout_s"], self._twin
        candidate = self._candidate or Construction(self._link, reference, limit_s)
        if twin is not None:
            twin.greet()
        note = candidate.finish(mailbox, twin)
        if twin is None:
            return None, note
        if self._known.pace_us and short_kernels(reference, reference.inputs(secrets.randbits(62))):
            match(twin, self._pace_us, self._known.pace_us)
        return Construction(twin, reference, limit_s), note

    def _profile(self, record: Record | None, timing: Timing) -> tuple[Profile | None, str]:
        """Where it was asked for; else, or without one, why."""
        if not self._request["profile"]:
            return None, ""
        if record is None or record.inside is None:
            return None, profile.UNRECORDED if self._device.type == "cuda" else profile.NEEDS_CUDA
        return profile.profile(record.inside, record.calls, timing, self._work, self._peaks), ""

    def _look_round(self, timed: bool) -> None:
        """What the candidate's process has become, seen from outside while it is stopped."""
        pid, twin = self._link.pid, self._twin.pid if timed and self._twin else None
        folder = os.getcwd()  # the worker's, where candidates have theirs
        found = kin.problem(pid, folder, twin) if self._request["guarded"] and pid else None
        if found is not None:
            raise Ended(Rejected(rule="guard", message=found))

    def _beside_compiled(
        self, timing: Timing, reference: Reference, mailbox: Mailbox, verifier: Verifier
    ) -> tuple[Timing, str]:
        compiled, twin = self._compiled, self._twin
        if compiled is None or twin is None:
            return timing, ""

        wanted_s = self._request["build_timeout_s"] + self._request["timing_timeout_s"]
        limit_s = min(wanted_s, self._end - time.monotonic() - BASELINE_MARGIN_S)
        if limit_s < SHORTEST_BASELINE_S:
            return timing, "No torch.compile baseline: the step's time does not last for it"

        def measure() -> Timing:
            self._link.end()  # what is kept for other submissions is measured without this one
            construct(compiled, reference, mailbox, limit_s)
            for link in (compiled, twin):
                link.enter("timing", limit_s)
            blocks = Blocks(compiled, twin, reference, mailbox, verifier)
            blocks.introduce(compiled)
            return Contest(blocks).run(self._request["timing_budget_s"])

        with self._stage("baseline"):
            return self._known.baselines.beside(
                self._request["task"]["hash"], timing, measure, shortened=limit_s < wanted_s
            )

    def _doubt(self, timing: Timing) -> Outcome | None:
        """Is the measured time below what any correct program must take on this device?"""
        known, moved = self._peaks, self._moved
        if known is None or moved is None or self._device.type != "cuda":
            return None
        cache = hardware.cache_bytes(self._device)
        floor = roofline.floor_ms(moved, cache, known)
        if timing.runtime_ms >= self._request["roofline_reject"] * floor:
            return None
        message = roofline.doubt(timing.runtime_ms, floor, moved, cache, known)
        return ImpossibleTiming(message=message, runtime_ms=timing.runtime_ms, floor_ms=floor)

    def _reference(self) -> tuple[Reference, Calibration | None]:
        """With what strict checks hold the submission to; nothing more than standard ones where no inputs tell.

        Under standard ones the candidate constructs beside it.
        """
        if self._request["checks"] == "standard":
            reference = self._drawn(later=True)
            self._candidate = Construction(self._link, reference, self._request["build_timeout_s"])
            reference.construct()
            return reference, None
        task = self._request["task"]
        reference, calibration = self._known.calibrations.of(task["id"], task["source"], self._drawn)
        return reference, None if calibration.note else calibration

    def _drawn(self, gain: float = 1.0, later: bool = False) -> Reference:
        task = self._request["task"]
        self.seeds = [secrets.randbits(62)]
        strict = self._request["checks"] == "strict"
        reference = Reference(
            task["id"],
            task["source"],
            self._device,
            self.seeds[0],
            strict,
            gain,
            self._request["precision"],
            later,
        )
        needed, total = reference.footprint(), hardware.memory_bytes(self._device)
        if needed > total:
            raise TaskFault(f"the task's inputs take {needed} bytes, this device has {total}")
        return reference

    def _prepare(self, reference: Reference) -> Mailbox:
        task = self._request["task"]
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)  # for what the reference needs (see `lacking`)
        inputs = reference.inputs(secrets.randbits(62))
        outputs, flops, size = roofline.measure(reference, inputs)
        tolerance = max(self._request["atol"], self._request["rtol"])
        self._moved = roofline.needed(task["id"], reference, inputs, outputs, tolerance)
        self._peaks = peaks.known(hardware.name(self._device), self._request["peaks"])
        half = reference.precision != "fp32" or roofline.computes_in_half(inputs)
        self._work = profile.Work(flops, size, half)
        if self._peaks is not None:
            self._roofline = roofline.bound(flops, size, half, self._peaks)
        self._mailbox = Mailbox(reference, inputs, outputs)
        return self._mailbox

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._report.send({"stage": name})
        started = time.monotonic()
        try:
            yield
        finally:
            self.durations[name] = time.monotonic() - started
            self._note_memory()

    def _note_memory(self) -> None:
        """Called while the candidate still holds its memory."""
        if self._device.type == "cuda":
            free, total = torch.cuda.mem_get_info(self._device)
            self.peak_bytes = max(total - free, self.peak_bytes or 0)

    @property
    def seeds_digest(self) -> str:
        return hashlib.sha256(repr(self.seeds).encode()).hexdigest()[:16]


def serve(worker: Peer, device: torch.device, known: Known) -> None:
    """Evaluate until the worker closes the socket or the device's context goes bad."""
    while True:
        try:
            request, fds = worker.receive_with_fds()
        except FrameError:
            return
        with (
            _linked(CandidateLink, fds[:2]) as link,
            _linked(TwinLink, fds[2:4]) as twin,
            _linked(TwinLink, fds[4:]) as compiled,
        ):
            assert link is not None
            evaluation = Evaluation(request, link, twin, compiled, device, worker, known)
            outcome = evaluation.run()
        worker.send(
            {
                "outcome": outcome.model_dump(),
                "durations": evaluation.durations,
                "seeds_digest": evaluation.seeds_digest,
                "peak_bytes": evaluation.peak_bytes,
            }
        )


@contextmanager
def _linked(kind: type[Link], fds: list[int]) -> Iterator[Link | None]:
    """To a process with a link and a handle; None without them."""
    if not fds:
        yield None
        return
    link, handle = fds
    peer = Peer(socket.socket(fileno=link), CANDIDATE_CAP, watch=[handle], trusted=False)
    try:
        yield kind(peer, handle)
    finally:
        peer.close()
        os.close(handle)


def main() -> None:
    worker = Peer(socket.socket(fileno=int(sys.argv[1])), TRUSTED_CAP)
    sandbox.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    device = torch.device(sys.argv[3])
    pace_us = float(sys.argv[4]) if len(sys.argv) > 4 else context.limit() if device.type == "cuda" else 0.0
    _warm(device)
    described = hardware.describe(device).model_dump()
    worker.send({"hello": True, "device": described, "facts": hardware.facts(device), "pace_us": pace_us})
    if device.type == "cpu" or not landlock.abi():
        sandbox.close_to_others()  # Landlock does the same; whether the driver minds was never seen
    draws.install(device)
    sys.excepthook = _end_on_error
    serve(worker, device, Known(pace_us=pace_us))
    os._exit(0)  # the interpreter's teardown beside a device context costs time, and can hang


def _warm(device: torch.device) -> None:
    """What the first evaluation would hold a GPU for: what PyTorch imports when needed, and the comparison."""
    if device.type == "cuda":
        with FlopCounterMode(display=False):
            torch.ones(1)
        compare(torch.ones(1, device=device), torch.ones(1, device=device), 0.0, 0.0)
    gc.freeze()  # or each evaluation's collection goes through all of that, for a tenth of a second


def _end_on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.__excepthook__(kind, error, trace)
    os._exit(1)


if __name__ == "__main__":
    main()
