"""tanh from one exponential of a negative number, which cannot overflow; a fixed set of programs loops."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    decay = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - decay) / (1.0 + decay)
    return tl.where(x < 0, -size, size)


@triton.jit
def tanh_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(y_ptr + i, tanh(x), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        programs = min(triton.cdiv(n, 4 * 2048), 132 * 16)
        tanh_kernel[(programs,)](x, y, n, BLOCK=2048, num_warps=4)
        return y
