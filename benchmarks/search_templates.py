"""Kernel templates with launch parameters: search problems whose whole space can be measured.

Each is a right Triton kernel at every point; only its speed depends on the parameters. So the optimum is known,
and strategies can be compared at equal budget without a model.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import search_script

Point = dict[str, int]

_HEAD = """import torch
import torch.nn as nn
import triton
import triton.language as tl

PARAMETERS = {parameters}

"""
_FOUND = re.compile(r"^PARAMETERS = (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True)
class Template:
    """`space` has the values of each parameter, in an order in which neighbours are alike."""

    name: str
    task: str
    code: str
    space: Mapping[str, Sequence[int]]

    def points(self) -> list[Point]:
        names = list(self.space)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.space.values())]

    def program(self, point: Point) -> str:
        return _HEAD.replace("{parameters}", json.dumps(point)) + self.code


def parameters_in(text: str) -> list[Point]:
    """Those of every program in a text."""
    return [json.loads(found) for found in _FOUND.findall(text)]


def _task(forward: str, inputs: str) -> str:
    return (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {forward}\n\n\ndef get_inputs():\n    return [{inputs}]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )


_DIAGONAL = """
@triton.jit
def scale_add(a, b, d, y, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for step in range(ROWS):
        row = tl.program_id(0) * ROWS + step
        inside = column < columns
        at = row.to(tl.int64) * columns + column
        scale = tl.load(a + row)
        value = scale * tl.load(b + at, mask=inside) + tl.load(d + at, mask=inside)
        tl.store(y + at, value, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B, D):
        rows, columns = B.shape
        y = torch.empty_like(B)
        work, block = PARAMETERS["ROWS"], PARAMETERS["BLOCK"]
        grid = (rows // work, triton.cdiv(columns, block))
        scale_add[grid](A, B, D, y, columns, ROWS=work, BLOCK=block, num_warps=PARAMETERS["WARPS"])
        return y
"""

_SOFTMAX = """
@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        value = tl.load(x + start + first + at, mask=first + at < columns, other=-float("inf"))
        higher = tl.maximum(top, value)
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - safe) + tl.exp(value - safe)
        top = higher
    peak = tl.max(top, axis=0)
    total = tl.sum(total * tl.exp(top - peak), axis=0)
    for first in range(0, columns, BLOCK):
        inside = first + at < columns
        value = tl.load(x + start + first + at, mask=inside)
        tl.store(y + start + first + at, tl.exp(value - peak) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax[(rows,)](x, y, columns, BLOCK=PARAMETERS["BLOCK"], num_warps=PARAMETERS["WARPS"])
        return y
"""

_NORM = """
@triton.jit
def normalize(x, y, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        value = tl.load(x + start + first + at, mask=first + at < columns, other=0.0)
        squares += value * value
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / columns + 1e-5)
    for first in range(0, columns, BLOCK):
        inside = first + at < columns
        value = tl.load(x + start + first + at, mask=inside)
        tl.store(y + start + first + at, value * scale, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        normalize[(rows,)](x, y, columns, BLOCK=PARAMETERS["BLOCK"], num_warps=PARAMETERS["WARPS"])
        return y
"""

_MATMUL = """
@triton.jit
def matmul(a, b, y, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, size, K):
        left = tl.load(a + row[:, None] * size + (first + inner)[None, :])
        right = tl.load(b + (first + inner)[:, None] * size + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(y + row[:, None] * size + column[None, :], total.to(y.dtype.element_ty))


class ModelNew(nn.Module):
    def forward(self, A, B):
        size = A.shape[0]
        y = torch.empty_like(A)
        m, n = PARAMETERS["M"], PARAMETERS["N"]
        matmul[(size // m, size // n)](
            A, B, y, size, M=m, N=n, K=64, num_warps=PARAMETERS["WARPS"], num_stages=PARAMETERS["STAGES"]
        )
        return y
"""


def templates(small: bool = False) -> list[Template]:
    """Sizes of a GPU, or `small` ones that an interpreter gets through."""
    rows, columns, square = (16, 256, 128) if small else (4096, 8192, 4096)
    return [
        Template(
            "diagonal",
            search_script.TASK.replace("{size}", "64" if small else "4096"),
            _DIAGONAL,
            {"ROWS": (1, 2, 8), "BLOCK": (256, 512, 1024, 2048, 4096), "WARPS": (4, 8)},
        ),
        Template(
            "softmax",
            _task("x):\n        return torch.softmax(x, dim=1)", f"torch.randn({rows}, {columns})"),
            _SOFTMAX,
            {"BLOCK": (512, 1024, 2048, 4096, 8192), "WARPS": (1, 2, 4, 8, 16, 32)},
        ),
        Template(
            "rms norm",
            _task(
                "x):\n        return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + 1e-5)",
                f"torch.randn({rows}, {columns})",
            ),
            _NORM,
            {"BLOCK": (512, 1024, 2048, 4096, 8192), "WARPS": (1, 2, 4, 8, 16, 32)},
        ),
        Template(
            "matmul fp16",
            _task("A, B):\n        return A @ B", ", ".join([f"torch.randn({square}, {square}).half()"] * 2)),
            _MATMUL,
            {"M": (32, 64, 128), "N": (32, 64, 128), "WARPS": (4, 8), "STAGES": (2, 3)},
        ),
    ]
