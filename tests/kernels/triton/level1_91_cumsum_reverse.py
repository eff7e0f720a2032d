"""Sums from the right: blocks are visited from the end, each scanned in reverse; nothing is flipped in memory."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_from_the_right(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 0.0
    blocks = tl.cdiv(columns, BLOCK)
    for step in range(blocks):
        i = (blocks - 1 - step) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns, other=0.0)
        tl.store(y_ptr + row + i, carry + tl.cumsum(x, axis=0, reverse=True), mask=i < columns)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.transpose(self.dim, -1).contiguous()
        y = torch.empty_like(moved)
        columns = moved.shape[-1]
        cumsum_from_the_right[(moved.numel() // columns,)](moved, y, columns, BLOCK=4096, num_warps=8)
        return y.transpose(self.dim, -1)
