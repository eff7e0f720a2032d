"""Is what lies in a set's output slots right? The tolerance of the task, finiteness and its invariant included.

In 16 bits a fused kernel is closer to the truth than a reference that rounds after every operation, or overflows
on the way: right is what that gives, and also what the same reference gives when it computes in 32 bits.

Under strict checks an output as a whole must agree, too, as closely as its calibration allows. On the families
that these add, the absolute part of the tolerance is a share of the largest expected magnitude, where that is
larger.

Decides; draws nothing and talks to nobody. Used for trials and for timed calls alike, so that both are held to
the same.
"""

from __future__ import annotations

from typing import Any

import torch

from .agreement import Deviation, deviation
from .calibration import Allowance, Allowances, Calibration, larger, measured
from .casting import smallest
from .compare import all_finite, compare
from .extras import pick
from .families import Family
from .mailbox import InputSet, Mailbox
from .reference import Reference


class Verifier:
    """`atol` and `rtol` as configured; the task's own extras narrow or replace them. Strict with a calibration."""

    def __init__(
        self, reference: Reference, atol: float, rtol: float, calibration: Calibration | None = None
    ) -> None:
        self._reference = reference
        self._extras = reference.extras
        self._calibration = calibration
        self._measured: dict[str | None, Allowances] = {}
        self._atol = pick(self._extras.atol, atol)
        self._rtol = pick(self._extras.rtol, rtol)

    def problem(self, mailbox: Mailbox, entry: InputSet) -> str | None:
        """What is wrong with the set's answers, or None. Needs its expected outputs."""
        return self.wrong(mailbox.answers(entry), entry.expected, entry.family, entry.private)

    def wrong(
        self, answers: list[torch.Tensor], expected: list[torch.Tensor], family: Family | None, inputs: list[Any]
    ) -> str | None:
        """What is wrong with answers for inputs of a family, or None; both flat, of the same shapes and dtypes."""
        found = self._differs(answers, expected, family)
        if found is not None and not self._right_in_32_bits(answers, expected, family, inputs):
            return found
        return self._broken(answers, expected, inputs)

    def _differs(
        self, answers: list[torch.Tensor], expected: list[torch.Tensor], family: Family | None
    ) -> str | None:
        derived = family is not None and family.change is not None
        for index, (got, right) in enumerate(zip(answers, expected, strict=True)):
            found = self._apart(got, right, derived) or self._disagrees(got, right, family, index)
            if found is not None:
                return f"output {index}: {found}" if len(answers) > 1 else found
        return None

    def _right_in_32_bits(
        self, answers: list[torch.Tensor], expected: list[torch.Tensor], family: Family | None, inputs: list[Any]
    ) -> bool:
        """Are 16-bit answers what the reference gives when it rounds at the end alone, as a fused kernel does?"""
        if self._reference.precision == "fp32":
            return False
        exact = self._reference.in_32_bits(inputs)
        if exact is None or [one.shape for one in exact] != [one.shape for one in expected]:
            return False
        rounded = [one.to(two.dtype) for one, two in zip(exact, expected, strict=True)]
        return self._differs(answers, rounded, family) is None

    def _broken(self, answers: list[torch.Tensor], expected: list[torch.Tensor], inputs: list[Any]) -> str | None:
        """What answers violate of the task's invariant that the reference, rounded as it is, does not."""
        broken = self._reference.broken_invariant(inputs, answers)
        if broken is None or self._reference.precision == "fp32":
            return broken
        return broken if self._reference.broken_invariant(inputs, expected) is None else None

    def _disagrees(
        self, got: torch.Tensor, expected: torch.Tensor, family: Family | None, index: int
    ) -> str | None:
        """What is wrong with an output as a whole.

        What a task's calibration found, maybe with other weights, is found anew with these before it counts
        against anyone; the larger allowance holds.
        """
        allowances = self._calibration.of(family) if self._calibration else ()
        allowance = allowances[index] if allowances else None
        if allowance is None:
            return None
        off = deviation(got, expected)
        if _within(off, allowance):
            return None
        here = self._here(family)[index]
        return _described(off, allowance if here is None else larger(allowance, here))

    def _here(self, family: Family | None) -> Allowances:
        key = family.name if family else None
        if key not in self._measured:
            self._measured[key] = measured(self._reference, family)
        return self._measured[key]

    def _apart(self, got: torch.Tensor, expected: torch.Tensor, derived: bool) -> str | None:
        """What is wrong with single elements."""
        if self._extras.finite and not all_finite(got):
            return "some elements are NaN or infinite"
        mismatch = compare(got, expected, self._tolerance(expected, derived), self._rtol)
        return None if mismatch is None else mismatch.text()

    def _tolerance(self, expected: torch.Tensor, derived: bool) -> float:
        if not expected.numel() or expected.dtype.is_complex:
            return self._atol
        if derived:
            return self._atol * max(1.0, _largest(expected))
        if self._extras.relative_atol is None:
            return self._atol
        share = _largest(expected) * self._extras.relative_atol
        if self._reference.precision != "fp32" and expected.dtype.is_floating_point:
            share = max(share, smallest(expected.dtype))  # of results this small, either neighbour is right
        return min(self._atol, share)


def _largest(tensor: torch.Tensor) -> float:
    low, high = tensor.aminmax()
    return max(abs(float(low)), abs(float(high)))


def _within(off: Deviation, allowance: Allowance) -> bool:
    return off.scale <= allowance.scale and off.residual <= allowance.residual


def _described(off: Deviation, allowance: Allowance) -> str | None:
    if _within(off, allowance):
        return None
    if off.residual <= allowance.residual:
        return f"the result is off by a factor of about 1 +/- {off.scale:.3g}; {allowance.scale:.2g} are allowed"
    return (
        f"the result as a whole is not exact enough: its error is {off.total:.3g} of the output's root mean"
        f" square, at most {allowance.residual:.2g} comes from rounding"
    )
