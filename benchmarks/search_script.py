"""A script of candidates for `diag(A) @ B + D`: wrong, cheating, slow, broken, good, as a model might write them.

What a real model would write is not measured here. The script shows what becomes of each kind of candidate, under
the real evaluator: none but a verified one wins, and what wins is measured again.
"""

from __future__ import annotations

from dataclasses import dataclass

TASK = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """diag(A) @ B + D: a matrix product with a diagonal matrix, and a sum."""

    def __init__(self):
        super().__init__()

    def forward(self, A, B, D):
        return torch.diag(A) @ B + D


N = {size}
M = {size}


def get_inputs():
    return [torch.randn(N), torch.randn(N, M), torch.randn(N, M)]


def get_init_inputs():
    return []
'''

_HEAD = """import torch
import torch.nn as nn
import triton
import triton.language as tl

"""

_FUSED = """
@triton.jit
def scale_add(a, b, d, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    at = row.to(tl.int64) * columns + column
    scale = tl.load(a + row)
    value = scale * tl.load(b + at, mask=inside) + tl.load(d + at, mask=inside)
    tl.store(y + at, value, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B, D):
        rows, columns = B.shape
        y = torch.empty_like(B)
        grid = (rows, triton.cdiv(columns, 1024))
        scale_add[grid](A, B, D, y, columns, BLOCK=1024, num_warps=4)
        return y
"""

_SLOW = """
@triton.jit
def product(a, b, d, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    at = row.to(tl.int64) * columns + column
    total = tl.load(d + at, mask=inside)
    for k in range(rows):
        weight = tl.where(k == row, tl.load(a + k), 0.0)
        total += weight * tl.load(b + k * columns + column, mask=inside)
    tl.store(y + at, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B, D):
        rows, columns = B.shape
        y = torch.empty_like(B)
        grid = (rows, triton.cdiv(columns, 1024))
        product[grid](A, B, D, y, rows, columns, BLOCK=1024)
        return y
"""

_CACHED = """
@triton.jit
def copy(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.answers = {}

    def forward(self, A, B, D):
        if "y" not in self.answers:
            self.answers["y"] = torch.addcmul(D, A[:, None], B)
        y = torch.empty_like(B)
        copy[(triton.cdiv(y.numel(), 1024),)](self.answers["y"], y, y.numel(), BLOCK=1024)
        return y
"""

_PYTORCH = """
@triton.jit
def nothing(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at))


class ModelNew(nn.Module):
    def forward(self, A, B, D):
        return torch.addcmul(D, A[:, None], B)
"""


@dataclass(frozen=True)
class Candidate:
    """`stages` are where it may end; a good one passes."""

    name: str
    idea: str
    code: str
    stages: tuple[str, ...]

    @property
    def answer(self) -> str:
        return f"Idea: {self.idea}\n\n```python\n{self.code}```\n"


def _vary(code: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


_GOOD = _HEAD + _FUSED
_LARGER = _vary(_GOOD, ("triton.cdiv(columns, 1024)", "triton.cdiv(columns, 2048)"), ("BLOCK=1024", "BLOCK=2048"))

SCRIPT = (
    Candidate(
        "wrong",
        "scale the rows of B by A in one pass",
        _vary(_GOOD, (" + tl.load(d + at, mask=inside)", "")),
        ("correctness",),
    ),
    Candidate("pytorch", "let addcmul do it without the large product", _HEAD + _PYTORCH, ("format",)),
    Candidate("slow", "a matrix product by rows, with the diagonal made on the way", _HEAD + _SLOW, ("passed",)),
    Candidate(
        "broken",
        "a tile for each row",
        _vary(_GOOD, ("tl.arange(0, BLOCK)", "tl.aranges(0, BLOCK)")),
        ("compile", "correctness"),
    ),
    Candidate(
        "cached",
        "keep the result, as the weights do not change",
        _HEAD + _CACHED,
        ("format", "correctness", "timing"),
    ),
    Candidate("good", "no product at all: y = a[row] * b + d, each element once", _GOOD, ("passed",)),
    Candidate("again", "the same, written anew", _GOOD.replace("scale = ", "scale  =  "), ("passed",)),
    Candidate("larger", "twice the work for each program", _LARGER, ("passed",)),
    Candidate(
        "eight warps",
        "more warps to hide the latency",
        _vary(_LARGER, ("num_warps=4", "num_warps=8")),
        ("passed",),
    ),
)
VERIFIED = tuple(candidate.name for candidate in SCRIPT if candidate.stages == ("passed",))
