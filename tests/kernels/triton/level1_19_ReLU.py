"""Streams the tensor once; each program takes one block."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x_ptr, y_ptr, total, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(y_ptr + offsets, tl.where(x < 0, 0.0, x), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        total = x.numel()
        relu[(triton.cdiv(total, 4096),)](x, y, total, BLOCK=4096, num_warps=8)
        return y
