"""A running product. Blocks are scanned on their own and multiplied by what came before."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def cumprod_rows(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 1.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns, other=1.0)
        tl.store(y_ptr + row + i, carry * tl.cumprod(x, axis=0), mask=i < columns)
        carry *= tl.reduce(x, 0, multiply)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.transpose(self.dim, -1).contiguous()
        y = torch.empty_like(moved)
        columns = moved.shape[-1]
        cumprod_rows[(moved.numel() // columns,)](moved, y, columns, BLOCK=2048, num_warps=4)
        return y.transpose(self.dim, -1)
