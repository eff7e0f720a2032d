"""Smooth L1: quadratic below one, linear above. Parts are added with atomics into a zeroed scalar."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def smooth_l1(p_ptr, t_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + i, mask=i < n, other=0.0)
        t = tl.load(t_ptr + i, mask=i < n, other=0.0)
        size = tl.abs(p - t)
        total += tl.where(size < 1.0, 0.5 * size * size, size - 0.5)
    tl.atomic_add(out_ptr, tl.sum(total, axis=0) * scale)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        n = predictions.numel()
        loss = torch.zeros((), dtype=torch.float32, device=predictions.device)
        programs = min(triton.cdiv(n, 8192), 1056)
        smooth_l1[(programs,)](
            predictions.contiguous(), targets.contiguous(), loss, n, 1.0 / n, BLOCK=2048, num_warps=8
        )
        return loss
