"""Is what lies in a set's output slots right? The tolerance of the task, finiteness and its invariant included.

Decides; draws nothing and talks to nobody. Used for trials and for timed calls alike, so that both are held to
the same.
"""

from __future__ import annotations

import torch

from .compare import CHUNK, compare
from .extras import pick
from .mailbox import InputSet, Mailbox
from .reference import Reference


class Verifier:
    """`atol` and `rtol` as configured; the task's own extras narrow or replace them."""

    def __init__(self, reference: Reference, atol: float, rtol: float) -> None:
        self._reference = reference
        self._extras = reference.extras
        self._atol = pick(self._extras.atol, atol)
        self._rtol = pick(self._extras.rtol, rtol)

    def problem(self, mailbox: Mailbox, entry: InputSet) -> str | None:
        """What is wrong with the set's answers, or None. Needs its expected outputs."""
        answers = mailbox.answers(entry)
        for index, (got, expected) in enumerate(zip(answers, entry.expected, strict=True)):
            found = self._wrong(got, expected)
            if found is not None:
                return f"output {index}: {found}" if len(answers) > 1 else found
        return self._reference.broken_invariant(entry.private, answers)

    def _wrong(self, got: torch.Tensor, expected: torch.Tensor) -> str | None:
        if self._extras.finite and not all_finite(got):
            return "some elements are NaN or infinite"
        mismatch = compare(got, expected, self._tolerance(expected), self._rtol)
        return None if mismatch is None else mismatch.text()

    def _tolerance(self, expected: torch.Tensor) -> float:
        if self._extras.relative_atol is None or not expected.numel():
            return self._atol
        low, high = expected.aminmax()
        return min(self._atol, max(abs(float(low)), abs(float(high))) * self._extras.relative_atol)


def all_finite(tensor: torch.Tensor) -> bool:
    flat = tensor.reshape(-1)
    return all(bool(torch.isfinite(flat[start : start + CHUNK]).all()) for start in range(0, flat.numel(), CHUNK))
