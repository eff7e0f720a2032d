"""How far an output as a whole is from the expected one, in parts of its size.

An error is split in two: a common factor (`scale`, as for a result times 1.009), and what no factor explains
(`residual`). Both are relative to the root mean square of the expected output. Sums are taken in 64 bits and in
chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

CHUNK = 1 << 23
NOTHING = 1e-30


@dataclass(frozen=True)
class Deviation:
    """`size` is the root mean square of what was expected; the others are shares of it."""

    size: float
    scale: float
    residual: float

    @property
    def total(self) -> float:
        return math.hypot(self.scale, self.residual)


def deviation(got: torch.Tensor, expected: torch.Tensor) -> Deviation:
    """Of a floating-point output; both of one shape. Elements that are not finite on either side are left out."""
    power, error, common, count = 0.0, 0.0, 0.0, 0
    for a, b in _chunks(got, expected):
        off = a - b
        power += float(torch.dot(b, b))
        error += float(torch.dot(off, off))
        common += float(torch.dot(off, b))
        count += b.numel()
    size = math.sqrt(power / max(count, 1))
    if size < NOTHING:
        return Deviation(0.0, 0.0, 0.0 if math.sqrt(error / max(count, 1)) < NOTHING else math.inf)
    scale = common / power
    residual = math.sqrt(max(error - scale * common, 0.0) / power)
    return Deviation(size, abs(scale), residual)


def _chunks(got: torch.Tensor, expected: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    left, right = _real(got), _real(expected)
    for start in range(0, right.numel(), CHUNK):
        a = left[start : start + CHUNK].to(torch.float64)
        b = right[start : start + CHUNK].to(torch.float64)
        finite = torch.isfinite(a) & torch.isfinite(b)
        if not bool(finite.all()):
            a, b = a.where(finite, torch.zeros_like(a)), b.where(finite, torch.zeros_like(b))
        yield a, b


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).reshape(-1) if tensor.dtype.is_complex else tensor.reshape(-1)
