"""The whole chain in one kernel: each element is read once and written once."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def polynomial(x, coefficients, y, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = column < cols
    at, inside = row * cols + column, (row < rows) & mask
    value = tl.load(x + at, mask=inside)
    t = tl.minimum(tl.maximum(value, -1.5), 1.5)
    total = tl.load(coefficients + 5 * cols + column, mask=mask)
    total = total * t + tl.load(coefficients + 4 * cols + column, mask=mask)
    total = total * t + tl.load(coefficients + 3 * cols + column, mask=mask)
    total = total * t + tl.load(coefficients + 2 * cols + column, mask=mask)
    total = total * t + tl.load(coefficients + cols + column, mask=mask)
    total = total * t + tl.load(coefficients + column, mask=mask)
    tl.store(y + at, value + total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.randn(6, cols) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, cols = x.shape
        block = triton.next_power_of_2(cols)
        polynomial[(triton.cdiv(rows, 4),)](x, self.coefficients, y, rows, cols, ROWS=4, BLOCK=block, num_warps=8)
        return y
