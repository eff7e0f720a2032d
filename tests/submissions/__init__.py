"""Submissions for a row softmax, each a variation of `softmax.py` on one point."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
RIGHT = (FOLDER / "softmax.py").read_text()
RIGHT_CPP = (FOLDER / "softmax_cpp.py").read_text()

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(32, 64) * 3]


def get_init_inputs():
    return []
"""


POINTWISE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, EXPRESSION, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, *arguments):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        pointwise[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
        return y
"""


def pointwise(expression: str) -> str:
    """A submission that stores `expression` of each `value`."""
    return POINTWISE.replace("EXPRESSION", expression)


def vary(old: str, new: str, source: str = RIGHT) -> str:
    """`source` with one passage replaced; the passage must be there."""
    assert source.count(old) == 1, old
    return source.replace(old, new)


def in_forward(statement: str) -> str:
    """The right submission with a statement before its launch."""
    return vary("        rows, n = x.shape\n", f"        {statement}\n        rows, n = x.shape\n")


def returning(expression: str) -> str:
    """The right submission with another result."""
    return vary("        return y\n", f"        return {expression}\n")
