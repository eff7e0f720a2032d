"""Input families for a task's extra trials, and the invariants of the tasks that have them by id.

A family keeps the structure, shapes, strides and dtypes of `get_inputs()` and replaces the floating-point values.
Runs in the judge, on its device, under a seed that no candidate learns. Those of strict checks are in `varied`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SUM_TOLERANCE = 1e-3

Change = Callable[[list[torch.Tensor]], None]


@dataclass(frozen=True)
class Family:
    """`description` is for people; `change` writes over a task's own numbers, without it the task's checks do."""

    name: str
    description: str
    change: Change | None = None


def transform(family: str, value: torch.Tensor) -> torch.Tensor:
    """One input of a family, from the task's own; integers and booleans stay. Raises `KeyError`."""
    if not value.dtype.is_floating_point:
        return value
    result = torch.empty_like(value)
    _FAMILIES[family](result)
    return result


def _signed(out: torch.Tensor) -> None:
    out.uniform_(-32.0, 32.0)


def _zeros(out: torch.Tensor) -> None:
    out.zero_()


def _constant(out: torch.Tensor) -> None:
    """One number a row, another for each row."""
    rows = torch.empty(out.shape[0], *([1] * (out.dim() - 1)), device=out.device, dtype=out.dtype)
    out.copy_(rows.uniform_(-8.0, 8.0).expand_as(out))


def _peaked(out: torch.Tensor) -> None:
    """Small noise, and in each row a peak at a random place, 8 to 24 high."""
    out.normal_(0.0, 0.1)
    rows = out.view(out.shape[0], -1) if out.is_contiguous() else out.flatten(1)
    place = torch.randint(0, rows.shape[1], (rows.shape[0], 1), device=out.device)
    height = torch.empty(rows.shape[0], 1, device=out.device, dtype=out.dtype).uniform_(8.0, 24.0)
    rows.scatter_(1, place, height)


def _scaled(out: torch.Tensor) -> None:
    out.normal_(0.0, float(10.0 ** torch.empty(()).uniform_(-2.0, 2.0)))


def _sparse(out: torch.Tensor) -> None:
    out.normal_()
    out.mul_(torch.empty_like(out).uniform_() > 0.99)


_FAMILIES: dict[str, Callable[[torch.Tensor], None]] = {
    "signed": _signed,
    "zeros": _zeros,
    "constant": _constant,
    "peaked": _peaked,
    "scaled": _scaled,
    "sparse": _sparse,
}


def _rows_sum_to_one(inputs: list[Any], outputs: list[torch.Tensor]) -> str | None:
    (output,) = outputs
    if bool((output < 0).any()):
        return "some elements are negative"
    worst = (output.sum(dim=1, dtype=torch.float64) - 1.0).abs().max().item()
    return None if worst <= SUM_TOLERANCE else f"a row's sum is off by {worst:.3g}"


def _unit_norm(inputs: list[Any], outputs: list[torch.Tensor]) -> str | None:
    (output,) = outputs
    norm = torch.linalg.vector_norm(output, dtype=torch.float64).item()
    return None if abs(norm - 1.0) <= SUM_TOLERANCE else f"the output's L2 norm is {norm:.7g}, not one"


INVARIANTS: dict[str, Callable[[list[Any], list[torch.Tensor]], str | None]] = {
    "level1/23_Softmax": _rows_sum_to_one,
    "level1/37_FrobeniusNorm_": _unit_norm,
}
