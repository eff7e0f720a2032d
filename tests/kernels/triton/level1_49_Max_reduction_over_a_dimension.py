"""The maximum over the middle dimension, with the tile's form chosen by the autotuner."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"ROWS": 16, "COLUMNS": 128}, num_warps=4),
        triton.Config({"ROWS": 8, "COLUMNS": 256}, num_warps=4),
        triton.Config({"ROWS": 32, "COLUMNS": 64}, num_warps=4),
    ],
    key=["rows", "columns"],
)
@triton.jit
def max_rows(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    best = tl.full((ROWS, COLUMNS), float("-inf"), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        offsets = (batch * rows + row)[:, None] * columns + column[None, :]
        mask = (row < rows)[:, None] & (column < columns)[None, :]
        best = tl.maximum(best, tl.load(x_ptr + offsets, mask=mask, other=float("-inf")))
    tl.store(y_ptr + batch * columns + column, tl.max(best, axis=0), mask=column < columns)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.dim not in (1, -2):
            x = x.movedim(self.dim, 1)
        batch, rows, columns = x.shape
        y = x.new_empty((batch, columns))

        def grid(meta):
            return (triton.cdiv(columns, meta["COLUMNS"]), batch)

        max_rows[grid](x.contiguous(), y, rows, columns)
        return y
