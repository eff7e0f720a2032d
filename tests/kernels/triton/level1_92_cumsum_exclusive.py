"""An exclusive scan: the inclusive one of the row shifted by one place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exclusive_cumsum(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        before = tl.load(x_ptr + row + i - 1, mask=(i > 0) & (i < columns), other=0.0)
        tl.store(y_ptr + row + i, carry + tl.cumsum(before, axis=0), mask=i < columns)
        carry += tl.sum(before, axis=0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.transpose(self.dim, -1).contiguous()
        y = torch.empty_like(moved)
        columns = moved.shape[-1]
        exclusive_cumsum[(moved.numel() // columns,)](moved, y, columns, BLOCK=2048, num_warps=4)
        return y.transpose(self.dim, -1)
