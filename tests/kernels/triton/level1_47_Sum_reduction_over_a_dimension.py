"""Sums over a dimension that is not the last: lanes lie along the contiguous columns, a tile walks down."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_rows(x_ptr, y_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    inside = column < columns
    x_ptr += batch * rows * columns
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for start in range(0, rows, BLOCK_ROWS):
        row = start + tl.arange(0, BLOCK_ROWS)
        mask = (row[:, None] < rows) & inside[None, :]
        total += tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + batch * columns + column, tl.sum(total, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = list(x.shape)
        dim = self.dim % len(shape)
        outer, rows, columns = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
        shape[dim] = 1
        y = x.new_empty(shape)
        grid = (triton.cdiv(columns, 128), outer)
        sum_rows[grid](x.contiguous(), y, rows, columns, BLOCK_ROWS=16, BLOCK_COLUMNS=128)
        return y
