"""What a task's inputs are, as far as other numbers must respect it: learned from what its generator draws.

Labels, masks, integers held as floating point, infinities and single numbers are kept as drawn; rows that sum to
one, triangular, diagonal and symmetric matrices keep that form; integers stay in the range that was seen, and stay
as drawn where their order or their being different matters. Everything else may be any number, on which the
reference then decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal["kept", "free", "simplex", "integers"]
Form = Literal["", "upper", "lower", "diagonal", "symmetric"]

_ONLY_IN_RANGE = re.compile(r"\b(BCELoss|binary_cross_entropy|bernoulli|multinomial)\b(?!_with)")
"""A CUDA device that meets numbers out of these functions' range is lost to its process."""


@dataclass(frozen=True)
class Domain:
    """Of one input tensor. `low` and `high` bound what was drawn."""

    kind: Kind
    form: Form = ""
    low: float = 0.0
    high: float = 0.0


def bounded(source: str) -> bool:
    """Does a task's source use functions that are only defined in a range?"""
    return _ONLY_IN_RANGE.search(source) is not None


def domain_of(draws: list[torch.Tensor]) -> Domain:
    """From several draws of one input."""
    first = draws[0]
    if first.dtype == torch.bool or first.dtype.is_complex or first.numel() < 2 or _overlaps(first):
        return Domain("kept")
    low, high = _range(draws)
    if not first.dtype.is_floating_point:
        return Domain("kept" if any(_ordered(draw) for draw in draws) else "integers", "", low, high)
    if not all(_free(draw) for draw in draws):
        return Domain("kept")
    if low >= 0.0 and all(_sums_to_one(draw) for draw in draws):
        return Domain("simplex", "", low, high)
    return Domain("free", _form(draws), low, high)


def _range(draws: list[torch.Tensor]) -> tuple[float, float]:
    bounds = [draw.aminmax() for draw in draws]
    return min(float(low) for low, _ in bounds), max(float(high) for _, high in bounds)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Do several elements share their memory?"""
    return any(size > 1 and not step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _ordered(draw: torch.Tensor) -> bool:
    """Ascending rows, or a permutation."""
    flat = draw.reshape(-1)
    if flat.numel() < 3:
        return True
    if draw.dim() and draw.shape[-1] > 2 and bool((draw[..., 1:] >= draw[..., :-1]).all()):
        return True
    return flat.numel() <= 1 << 24 and int(flat.unique().numel()) == flat.numel()


def _free(draw: torch.Tensor) -> bool:
    """Neither infinite nor whole numbers nor of two values."""
    low, high = draw.aminmax()
    if not bool(torch.isfinite(low)) or not bool(torch.isfinite(high)):
        return False
    return not bool(((draw == low) | (draw == high)).all()) and not bool((draw == draw.round()).all())


def _sums_to_one(draw: torch.Tensor) -> bool:
    if not draw.dim() or draw.shape[-1] < 2:
        return False
    return bool(((draw.sum(-1, dtype=torch.float32) - 1.0).abs() < 1e-2).all())


def _form(draws: list[torch.Tensor]) -> Form:
    shape = draws[0].shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2:
        return ""
    upper = all(torch.equal(draw, draw.triu()) for draw in draws)
    lower = all(torch.equal(draw, draw.tril()) for draw in draws)
    if upper or lower:
        return "diagonal" if upper and lower else "upper" if upper else "lower"
    return "symmetric" if all(torch.equal(draw, draw.mT) for draw in draws) else ""
