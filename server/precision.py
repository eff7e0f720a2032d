"""How exact a reference is: its outputs against its own in 64 bits, with products in TF32, and from call to call.

Errors are `Deviation`s, shares of an output's size. Inputs that a run has changed in place are drawn anew under
the same seed; the model is a copy for the same reason.
"""

from __future__ import annotations

import copy
import math
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import hardware
from .agreement import Deviation, deviation
from .casting import mapped
from .compare import all_finite
from .families import Family
from .layout import flatten
from .reference import Reference, TaskFault, seed_all, task_code
from .tf32 import Tf32Products

LONG_S = 2.0
UNKNOWN = Deviation(1.0, 1e-6, 1e-5)
WIDER = 6
"""Memory that a run in 64 bits takes, in sizes of inputs and outputs: both twice as wide, and intermediates."""

ENOUGH = 1 << 21

_VANISHING, _NEARLY_ALL = 1e-6, 0.9

Errors = list[Deviation | None]


@dataclass(frozen=True)
class Found:
    """Of one family: by output, the error and how far other inputs of the family move it (None, or any, if
    integer).

    `vanishing`: nearly all numbers of an output are nothing beside its largest. `random`: calls differ by
    themselves.
    """

    errors: tuple[Deviation | None, ...]
    varies: tuple[float, ...]
    finite: bool
    vanishing: bool
    random: bool


class _Draw:
    """The inputs of a run, as yet unwritten or not."""

    def __init__(self, seed: int, family: Family | None, inputs: list[Any]) -> None:
        self.seed, self.family, self.inputs = seed, family, inputs
        self._versions = self._now()

    def _now(self) -> list[int]:
        return [tensor._version for tensor in flatten(self.inputs)[1]]

    @property
    def written(self) -> bool:
        return self._now() != self._versions


class Runs:
    """Of one reference; the task's own inputs (`on(None)`) come first.

    `products`: there are matrix products of 32-bit numbers. `narrow`: the spacing of 16-bit numbers at one, if
    any.
    """

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        with task_code("copying its model"):
            self._model = copy.deepcopy(reference.model)
        self._drawn: _Draw | None = None
        self._own: Errors = []
        self._wide = True
        self.products = False
        self.narrow = 0.0

    def on(self, family: Family | None) -> Found:
        """Raises `TaskFault` where the reference fails."""
        seed = secrets.randbits(62)
        if family is None:
            self.narrow = self._narrowest(seed)
        outputs = self._outputs(seed, family)
        finite = all(all_finite(output) for output in outputs if _real(output))
        errors, random = self._errors(seed, family, outputs)
        other = self._outputs(secrets.randbits(62), family)
        varies = tuple(_moved(one, two) for one, two in zip(outputs, other, strict=True))
        vanishing = any(_vanishes(output) for output in outputs if _real(output) and output.numel())
        return Found(tuple(errors), varies, finite, vanishing, random)

    def varies(self, family: Family | None) -> tuple[float, ...]:
        """Raises `TaskFault` where the reference fails."""
        pair = [self._outputs(secrets.randbits(62), family) for _ in range(2)]
        return tuple(_moved(one, two) for one, two in zip(*pair, strict=True))

    def _errors(self, seed: int, family: Family | None, outputs: list[torch.Tensor]) -> tuple[Errors, bool]:
        """The largest of all; the reference's own error comes from 64 bits, or from where that was measured."""
        exact = self._exact(seed, family) if self._wide else None
        if exact is not None:
            errors = _between(outputs, exact)
            del exact
        else:
            errors = self._own or [UNKNOWN if _real(output) else None for output in outputs]
        random = False
        if family is None:
            self._own = errors
            repeated = _between(self._outputs(seed, None), outputs)
            random = any(error is not None and error.total > 1e-5 for error in repeated)
            errors = _larger(errors, repeated)
        if family is None or self.products:
            with sdpa_kernel(SDPBackend.MATH), Tf32Products() as products:
                cut = self._outputs(seed, family)
            self.products = self.products or products.seen
            errors = _larger(errors, _between(cut, outputs)) if products.seen else errors
        return errors, random

    def _narrowest(self, seed: int) -> float:
        """The rounding of the task's 16-bit numbers; 0 where inputs and weights have none."""
        tensors = [*flatten(self._inputs(seed, None))[1], *self._reference.state().values()]
        return max((torch.finfo(tensor.dtype).eps for tensor in tensors if _half(tensor)), default=0.0)

    def _outputs(self, seed: int, family: Family | None) -> list[torch.Tensor]:
        return self._run(self._model, self._inputs(seed, family))

    def _inputs(self, seed: int, family: Family | None) -> list[Any]:
        """Drawn anew only where they are not those of the run before, or that has written to them."""
        drawn = self._drawn
        if drawn is None or (drawn.seed, drawn.family) != (seed, family) or drawn.written:
            self._drawn = drawn = None  # their memory is free for the next
            self._drawn = drawn = _Draw(seed, family, self._reference.inputs(seed, family))
        return drawn.inputs

    def _exact(self, seed: int, family: Family | None) -> list[torch.Tensor] | None:
        inputs = self._inputs(seed, family)
        size = sum(tensor.nbytes for tensor in [*flatten(inputs)[1], *self._reference.state().values()])
        if self._reference.device.type == "cuda":
            torch.cuda.empty_cache()
        if WIDER * size > hardware.free_bytes(self._reference.device):
            return None
        started = time.monotonic()
        try:
            with _double_by_default():
                wide = copy.deepcopy(self._reference.model).double()
                outputs = self._run(wide, mapped(inputs, torch.Tensor.double))
                self._synchronize()
        except (TaskFault, torch.OutOfMemoryError):
            self._wide = False
            return None
        if time.monotonic() - started > LONG_S:
            self._wide = False
        return outputs

    def _run(self, model: Any, inputs: list[Any]) -> list[torch.Tensor]:
        seed_all(secrets.randbits(62))
        with task_code("forward"), torch.no_grad():
            return [output.contiguous() for output in flatten(model(*inputs))[1]]

    def _synchronize(self) -> None:
        if self._reference.device.type == "cuda":
            torch.cuda.synchronize(self._reference.device)


@contextmanager
def _double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _real(output: torch.Tensor) -> bool:
    return output.dtype.is_floating_point or output.dtype.is_complex


def _half(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float16, torch.bfloat16)


def _between(got: list[torch.Tensor], expected: list[torch.Tensor]) -> Errors:
    """Raises `TaskFault` where the forms differ."""
    if [tensor.shape for tensor in got] != [tensor.shape for tensor in expected]:
        raise TaskFault("the reference's outputs have other shapes from one call to the next")
    return [
        deviation(_some(one), _some(two)) if _real(two) else None for one, two in zip(got, expected, strict=True)
    ]


def _some(output: torch.Tensor) -> torch.Tensor:
    """Of a large output elements at a constant distance, odd so as to meet all columns, enough for a mean."""
    return output.reshape(-1)[:: output.numel() // ENOUGH | 1]


def _larger(errors: Errors, others: Errors) -> Errors:
    return [
        None
        if one is None or two is None
        else Deviation(one.size, max(one.scale, two.scale), max(one.residual, two.residual))
        for one, two in zip(errors, others, strict=True)
    ]


def _moved(one: torch.Tensor, two: torch.Tensor) -> float:
    """The spread over inputs of an element, as a share of the output's size."""
    if not _real(one):
        return float(not torch.equal(one, two))
    off = deviation(_some(two), _some(one))
    if not off.size or math.isinf(off.total):
        return 0.0
    return off.total / math.sqrt(2.0) / max(1.0, off.total)


def _vanishes(output: torch.Tensor) -> bool:
    magnitude = output.abs()
    return bool((magnitude < _VANISHING * magnitude.max()).float().mean() > _NEARLY_ALL)
