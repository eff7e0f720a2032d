"""Three steps: partial sums of squares, their total's root in one program, the division."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_sums(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        total += x * x
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def root_of_sum(part_ptr, norm_ptr, PARTS: tl.constexpr):
    tl.store(norm_ptr, tl.sqrt(tl.sum(tl.load(part_ptr + tl.arange(0, PARTS)), axis=0)))


@triton.jit
def divide(x_ptr, norm_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    norm = tl.load(norm_ptr)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) / norm, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        n = x.numel()
        y = torch.empty_like(x)
        count = min(triton.next_power_of_2(triton.cdiv(n, 8192)), 1024)
        parts = torch.empty(count, dtype=torch.float32, device=x.device)
        norm = torch.empty(1, dtype=torch.float32, device=x.device)
        square_sums[(count,)](x, parts, n, BLOCK=2048, num_warps=8)
        root_of_sum[(1,)](parts, norm, PARTS=count)
        divide[(triton.cdiv(n, 4096),)](x, norm, y, n, BLOCK=4096, num_warps=8)
        return y
