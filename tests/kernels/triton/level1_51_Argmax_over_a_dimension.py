"""The first row that holds a column's maximum.

Each lane keeps the best value that it has met and its row; equal values keep the earlier row. At the end the
lanes of a column agree on the maximum, and on the smallest row among those that have it.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_rows(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    lane = tl.arange(0, ROWS)
    best = tl.full((ROWS, COLUMNS), float("-inf"), dtype=tl.float32)
    where = tl.zeros((ROWS, COLUMNS), dtype=tl.int32) + lane[:, None]
    x_ptr += batch * rows * columns
    for start in range(0, rows, ROWS):
        row = start + lane
        mask = (row < rows)[:, None] & (column < columns)[None, :]
        x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask, other=float("-inf"))
        better = x > best
        best = tl.where(better, x, best)
        where = tl.where(better, row[:, None], where)
    top = tl.max(best, axis=0)
    first = tl.min(tl.where(best == top[None, :], where, rows), axis=0)
    tl.store(y_ptr + batch * columns + column, first.to(tl.int64), mask=column < columns)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.dim not in (1, -2):
            x = x.movedim(self.dim, 1)
        batch, rows, columns = x.shape
        y = torch.empty((batch, columns), dtype=torch.int64, device=x.device)
        grid = (triton.cdiv(columns, 128), batch)
        argmax_rows[grid](x.contiguous(), y, rows, columns, ROWS=8, COLUMNS=128)
        return y
