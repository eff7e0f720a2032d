"""Correctness: several trials on fresh secret inputs, each compared in the judge.

A trial draws inputs, computes what is expected, lets the candidate answer into a poisoned slot, and compares
there. The candidate's inputs are copies; changing them is reported as such unless the reference does so too.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

from .compare import compare
from .layout import flatten
from .link import CandidateLink, Ended
from .mailbox import InputSet, Mailbox
from .outcome import WrongOutput
from .reference import Reference

SPARE_BYTES = 1 << 30


def run_trials(
    link: CandidateLink,
    reference: Reference,
    mailbox: Mailbox,
    seeds: list[int],
    atol: float,
    rtol: float,
    note: str,
) -> None:
    """Raises `Ended` at the first trial that fails. `note` goes with wrong numbers (state that differs)."""
    for trial, seed in enumerate(seeds, start=1):
        link.trial = trial
        entry = mailbox.sets[secrets.randbelow(len(mailbox.sets))]
        mailbox.fill(entry, seed)
        versions = _versions(entry.private)
        entry.expected = expected_outputs(reference, entry.private)
        mutates = _versions(entry.private) != versions
        settle(reference.device)
        link.call("trial", inputs=entry.inputs, outputs=entry.outputs)
        problem = wrong_answer(mailbox, entry, atol, rtol)
        if problem is None and not mutates and mailbox.mutated(entry):
            problem = "forward() changed its inputs in place; the reference leaves them as they are"
        if problem is not None:
            text = f"trial {trial} of {len(seeds)} (inputs from get_inputs): {problem}"
            raise Ended(WrongOutput(message=f"{text}. {note}".rstrip(), trial=trial))
        entry.private, entry.expected = [], []
    link.trial = None


def expected_outputs(reference: Reference, inputs: list[Any]) -> list[torch.Tensor]:
    """The reference's outputs, flat and dense."""
    return [output.contiguous() for output in flatten(reference(inputs))[1]]


def wrong_answer(mailbox: Mailbox, entry: InputSet, atol: float, rtol: float) -> str | None:
    """What is wrong with the contents of a set's output slots, or None."""
    answers = mailbox.answers(entry)
    for index, (got, expected) in enumerate(zip(answers, entry.expected, strict=True)):
        mismatch = compare(got, expected, atol, rtol)
        if mismatch is not None:
            which = f"output {index}: " if len(answers) > 1 else ""
            return which + mismatch.text()
    return None


def settle(device: torch.device) -> None:
    """The judge's own work is done, and memory it only caches is free, before a candidate's turn begins."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > SPARE_BYTES:
            torch.cuda.empty_cache()


def _versions(inputs: list[Any]) -> list[int]:
    return [tensor._version for tensor in flatten(inputs)[1]]
