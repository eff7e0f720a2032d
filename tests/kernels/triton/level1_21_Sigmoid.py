"""The data is read once and not again: it is marked so that it leaves the caches first."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def sigmoid_kernel(x_ptr, y_ptr, n, SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * SIZE
    i = start + tl.arange(0, SIZE)
    x = tl.load(x_ptr + i, mask=i < n, eviction_policy="evict_first")
    tl.store(y_ptr + i, 1.0 / (1.0 + tl.exp(-x)), mask=i < n, eviction_policy="evict_first")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n = x.numel()
        sigmoid_kernel[(triton.cdiv(n, BLOCK),)](x.contiguous(), y, n, SIZE=BLOCK)
        return y
