"""What a task's inputs are, as far as other numbers must respect it: learned from what its generator draws.

Labels, masks, integers held as floating point, infinities and single numbers are kept as drawn; rows that sum to
one, triangular, diagonal and symmetric matrices keep that form; integers stay in the range that was seen, and stay
as drawn where their order or their being different matters. Everything else may be any number, on which the
reference then decides.
"""

from __future__ import annotations

import math
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


def domain_of(draw: torch.Tensor) -> Domain:
    """As one draw of an input shows it."""
    if draw.dtype == torch.bool or draw.dtype.is_complex or draw.numel() < 2 or _overlaps(draw):
        return Domain("kept")
    low, high = (float(bound) for bound in draw.aminmax())
    if not draw.dtype.is_floating_point:
        return Domain("kept" if _ordered(draw) else "integers", "", low, high)
    if not _free(draw, low, high):
        return Domain("kept")
    if low >= 0.0 and _sums_to_one(draw):
        return Domain("simplex", "", low, high)
    return Domain("free", _form(draw), low, high)


def joined(one: Domain, other: Domain) -> Domain:
    """As two draws show it: kept if either says so, of a form that both have."""
    if "kept" in (one.kind, other.kind):
        return Domain("kept")
    kind = one.kind if one.kind == other.kind else "free"
    form = one.form if one.form == other.form else ""
    return Domain(kind, form, min(one.low, other.low), max(one.high, other.high))


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


def _free(draw: torch.Tensor, low: float, high: float) -> bool:
    """Neither infinite nor whole numbers nor of two values."""
    if not math.isfinite(low) or not math.isfinite(high):
        return False
    return not bool(((draw == low) | (draw == high)).all()) and not bool((draw == draw.round()).all())


def _sums_to_one(draw: torch.Tensor) -> bool:
    if not draw.dim() or draw.shape[-1] < 2:
        return False
    return bool(((draw.sum(-1, dtype=torch.float32) - 1.0).abs() < 1e-2).all())


def _form(draw: torch.Tensor) -> Form:
    if draw.dim() < 2 or draw.shape[-1] != draw.shape[-2] or draw.shape[-1] < 2:
        return ""
    upper, lower = torch.equal(draw, draw.triu()), torch.equal(draw, draw.tril())
    if upper or lower:
        return "diagonal" if upper and lower else "upper" if upper else "lower"
    return "symmetric" if torch.equal(draw, draw.mT) else ""
