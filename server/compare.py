"""Is an output the expected one? Values only: form, shape and dtype are settled before.

Floating point: |got - expected| <= atol + rtol * |expected| element by element, non-finite values alike in
kind and place; integers and booleans exactly. Works in chunks, so that comparing needs a bounded amount of
memory beside the two tensors; a kernel that counts alike (see `fused`) saves the work where all is well.
`got` may be written to by nobody while it is compared: callers pass a private copy or a slot whose writer is
stopped or done.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from . import fused

CHUNK = 1 << 25
PROBE = 1 << 14
ROUNDS = 6 * fused.BLOCKS * fused.THREADS // PROBE
TOLERANCES = [(1e-2, 1e-2), (1e-4, 1e-4), (1e-2, 0.0), (0.0, 1e-3), (0.0, 0.0)]

_logger = logging.getLogger(__name__)

_INTEGER_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Mismatch:
    """How an output is wrong. `index` is where the error is largest."""

    wrong: int
    total: int
    index: tuple[int, ...]
    got: float
    expected: float

    def text(self) -> str:
        share = 100 * self.wrong / self.total
        return (
            f"{self.wrong} of {self.total} elements are off ({share:.3g} %); the largest error is at index"
            f" {list(self.index)}: got {self.got:.7g}, expected {self.expected:.7g}"
        )


def compare(got: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> Mismatch | None:
    """None when `got` is the expected tensor (same shape and dtype) within tolerance."""
    left, right = got.reshape(-1).contiguous(), expected.reshape(-1).contiguous()  # a flat view may skip elements
    count_off = _counter(right.dtype, right.device) if right.is_cuda and right.dtype in fused.TYPES else None
    if count_off is not None and count_off(left, right, atol, rtol) == 0:
        return None
    wrong = 0
    worst = (-1.0, 0)
    for start in range(0, right.numel(), CHUNK):
        count, error, at = _compare_chunk(left[start : start + CHUNK], right[start : start + CHUNK], atol, rtol)
        wrong += count
        if count and error > worst[0]:
            worst = (error, start + at)
    if not wrong:
        return None
    at = worst[1]
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), expected.shape))
    return Mismatch(wrong, right.numel(), index, _number(left[at]), _number(right[at]))


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, NaN included; both flat, of one dtype and size."""
    width = min(left.dtype.itemsize, 8)
    a, b = left.view(_INTEGER_OF_WIDTH[width]), right.view(_INTEGER_OF_WIDTH[width])
    chunks = range(0, a.numel(), CHUNK)
    return all(torch.equal(a[start : start + CHUNK], b[start : start + CHUNK]) for start in chunks)


def all_finite(tensor: torch.Tensor) -> bool:
    flat = tensor.reshape(-1)
    return all(bool(torch.isfinite(flat[start : start + CHUNK]).all()) for start in range(0, flat.numel(), CHUNK))


def _compare_chunk(got: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> tuple[int, float, int]:
    """Elements off, the largest error among them (inf for non-finite), and its position in the chunk."""
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        bad = got != expected
        error = (got.to(torch.float64) - expected.to(torch.float64)).abs()
    else:
        wide = torch.float64 if expected.dtype.itemsize >= 8 else torch.float32
        if expected.dtype.is_complex:
            wide = torch.complex128 if expected.dtype.itemsize > 8 else torch.complex64
        a, b = got.to(wide), expected.to(wide)
        error = (a - b).abs()
        close = error <= atol + rtol * b.abs()
        same = (a == b) | (torch.isnan(a) & torch.isnan(b))
        finite = torch.isfinite(a) & torch.isfinite(b)
        bad = ~torch.where(finite, close, same)
        error = torch.where(finite, error, torch.full_like(error, math.inf))
    count = int(bad.sum())
    if not count:
        return 0, 0.0, 0
    error = torch.where(bad, error, torch.full_like(error, -1.0))
    at = int(error.argmax())
    return count, float(error[at]), at


@cache
def _counter(dtype: torch.dtype, device: torch.device) -> fused.Count | None:
    """None where there is none that counts as `_compare_chunk` does."""
    try:
        count_off = fused.counter(dtype)
        got, expected = _probe(dtype, device)
        for atol, rtol in TOLERANCES:
            counts = count_off(got, expected, atol, rtol), _compare_chunk(got, expected, atol, rtol)[0]
            if counts[0] != counts[1]:
                raise RuntimeError(f"a kernel counts {counts[0]} where {counts[1]} are off")
    except (AttributeError, ImportError, RuntimeError, OSError) as error:
        _logger.warning("outputs of %s are compared slowly: %s", dtype, error)
        return None
    return count_off


def _probe(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of all magnitudes with errors of all magnitudes, some of them none; every pair of special ones.

    So often that each of the kernel's threads goes round its loop, unrolled and not; the last element is off.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(3, PROBE, generator=generator, dtype=torch.float64)
    expected = drawn[0] * torch.exp(3 * drawn[1])
    got = expected * (1 + 10 ** (drawn[2] - 3.0)) + (drawn[1] > 1) * 1e-2
    got = torch.where(drawn[0] > 1, expected, got)
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 1.0], dtype=torch.float64)
    pairs = torch.cartesian_prod(special, special)[:-1].T
    both = torch.stack([torch.cat([got, pairs[0]]), torch.cat([expected, pairs[1]])]).to(device, dtype)
    return both[0].repeat(ROUNDS), both[1].repeat(ROUNDS)


def _number(value: torch.Tensor) -> float:
    scalar: Any = value.item()
    return abs(scalar) if isinstance(scalar, complex) else float(scalar)
