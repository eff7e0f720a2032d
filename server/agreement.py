"""How far an output as a whole is from the expected one, in parts of its size.

An error is split in two: a common factor (`scale`, as for a result times 1.009), and what no factor explains
(`residual`). Both are relative to the root mean square of the expected output. Sums are taken in 64 bits and in
chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

CHUNK = {"cpu": 1 << 18, "cuda": 1 << 25}
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
    left, right = _real(got), _real(expected)
    step = CHUNK[right.device.type]
    starts = range(0, right.numel(), step)
    parts = [_sums(left[start : start + step], right[start : start + step]) for start in starts]
    if not parts:
        return Deviation(0.0, 0.0, 0.0)
    power, error, common = torch.stack(parts).sum(0).tolist()
    count = right.numel()
    size = math.sqrt(power / count)
    if size < NOTHING:
        return Deviation(0.0, 0.0, 0.0 if math.sqrt(error / count) < NOTHING else math.inf)
    scale = common / power
    return Deviation(size, abs(scale), math.sqrt(max(error - scale * common, 0.0) / power))


def _sums(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Of the squares of what is expected and of the error, and of their product; on the device, not waited for."""
    a, b = got.to(torch.float64), expected.to(torch.float64)
    off = a - b
    finite = torch.isfinite(off)
    off, b = off.where(finite, 0.0), b.where(finite, 0.0)
    return torch.stack([torch.dot(b, b), torch.dot(off, off), torch.dot(off, b)])


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).reshape(-1) if tensor.dtype.is_complex else tensor.reshape(-1)
