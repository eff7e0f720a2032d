"""Correctness: several trials on fresh secret inputs, each compared in the judge.

A trial draws inputs, computes what is expected, lets the candidate answer into a poisoned slot, and compares
there. The candidate's inputs are copies; changing them is reported as such unless the reference does so too.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

from . import hardware, strict
from .calibration import Calibration
from .families import Family
from .layout import flatten
from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import WrongOutput
from .reference import Reference
from .verify import Verifier

SPARE_BYTES = 1 << 30
ROOM_BYTES = 48 << 30


def run_trials(
    link: CandidateLink,
    reference: Reference,
    mailbox: Mailbox,
    verifier: Verifier,
    draws: list[tuple[int, Family | None]],
    note: str,
) -> None:
    """One trial for each seed and family (`get_inputs` where it is None).

    Raises `Ended` at the first that fails. `note` goes with wrong numbers (state that differs).
    """
    entry = mailbox.sets[0]
    for trial, (seed, family) in enumerate(draws, start=1):
        link.trial = trial
        if trial != 2:  # the second trial finds other contents where the first one's were
            entry = mailbox.sets[secrets.randbelow(len(mailbox.sets))]
        mailbox.fill(entry, seed, family)
        problem = _try(link, reference, mailbox, verifier, entry)
        if problem is not None:
            source = "from get_inputs" if family is None else family.description
            text = f"trial {trial} of {len(draws)} (inputs: {source}): {problem}"
            raise Ended(WrongOutput(message=f"{text}. {note}".rstrip(), trial=trial))
        entry.private, entry.expected = [], []
    link.trial = None


def _try(
    link: CandidateLink, reference: Reference, mailbox: Mailbox, verifier: Verifier, entry: InputSet
) -> str | None:
    versions = _versions(entry.private)
    entry.expected = expected_outputs(reference, entry.private)
    mutates = _versions(entry.private) != versions
    settle(reference.device)
    link.call("trial", inputs=entry.inputs, outputs=entry.outputs, keep=True)
    problem = verifier.problem(mailbox, entry)
    if problem is None and not mutates and mailbox.mutated(entry):
        problem = "forward() changed its inputs in place; the reference leaves them as they are"
    return problem


def planned(trials: int, reference: Reference, calibration: Calibration | None) -> list[Family | None]:
    """The inputs of each trial: the task's own, its own checks', and those of strict checks.

    The latter take the place of some of the task's own.
    """
    further = list(calibration.families) if calibration else []
    own = max(min(trials, strict.OWN_TRIALS), trials - len(further))
    return [*[None] * own, *reference.families, *further]


def expected_outputs(reference: Reference, inputs: list[Any]) -> list[torch.Tensor]:
    """The reference's outputs, flat and dense."""
    return [output.contiguous() for output in flatten(reference(inputs))[1]]


def settle(device: torch.device, room: int = ROOM_BYTES) -> bool:
    """The judge's own work is done, and memory it only caches is given back where less than `room` is free.

    Was any given back? Then the driver clears it, for some time at the cost of whoever uses the memory.
    """
    if device.type != "cuda":
        return False
    torch.cuda.synchronize(device)
    if hardware.cached_bytes(device) < SPARE_BYTES or torch.cuda.mem_get_info(device)[0] > room:
        return False
    torch.cuda.empty_cache()
    return True


def _versions(inputs: list[Any]) -> list[int]:
    return [tensor._version for tensor in flatten(inputs)[1]]
