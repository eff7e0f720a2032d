"""A mean over the middle dimension in two steps, so that the rows are split over programs as well.

The first kernel sums slices of rows, the second adds the slices up and divides.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SLICES = 4


@triton.jit
def sum_slices(x_ptr, part_ptr, rows, columns, per_slice, UNROLL: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    part, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    first = part * per_slice
    last = tl.minimum(first + per_slice, rows)
    pointer = x_ptr + batch * rows * columns + column
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, UNROLL):
        for step in tl.static_range(UNROLL):
            row = start + step
            # Past the slice's end no column counts.
            limit = tl.where(row < last, columns, 0)
            total += tl.load(pointer + row * columns, mask=column < limit, other=0.0)
    tl.store(part_ptr + (batch * tl.num_programs(1) + part) * columns + column, total, mask=inside)


@triton.jit
def mean_slices(part_ptr, y_ptr, rows, columns, SLICES: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    batch = tl.program_id(1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(SLICES):
        total += tl.load(part_ptr + (batch * SLICES + part) * columns + column, mask=inside, other=0.0)
    tl.store(y_ptr + batch * columns + column, total / rows, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.movedim(self.dim, -2).contiguous() if self.dim not in (1, -2) else x.contiguous()
        batch, rows, columns = x.shape
        parts = torch.empty((batch, SLICES, columns), dtype=torch.float32, device=x.device)
        y = torch.empty((batch, columns), dtype=x.dtype, device=x.device)
        blocks = triton.cdiv(columns, 512)
        sum_slices[(blocks, SLICES, batch)](
            x, parts, rows, columns, triton.cdiv(rows, SLICES), UNROLL=8, BLOCK=512
        )
        mean_slices[(blocks, batch)](parts, y, rows, columns, SLICES=SLICES, BLOCK=512)
        return y
