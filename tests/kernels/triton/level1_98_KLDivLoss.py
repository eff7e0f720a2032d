"""Sum of t * (log t - log p) over all, divided by the batch. Where t is zero the term is zero."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def divergence(p_ptr, t_ptr, part_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * columns + i, mask=i < columns, other=1.0)
        t = tl.load(t_ptr + row * columns + i, mask=i < columns, other=0.0)
        present = tl.where(t > 0, t, 1.0)
        total += tl.where(t > 0, t * (tl.log(present) - tl.log(p)), 0.0)
    tl.store(part_ptr + row, tl.sum(total, axis=0))


@triton.jit
def total_by_batch(part_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, rows, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + i, mask=i < rows, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        rows, columns = predictions.shape
        parts = torch.empty(rows, dtype=torch.float32, device=predictions.device)
        loss = torch.empty((), dtype=predictions.dtype, device=predictions.device)
        divergence[(rows,)](predictions.contiguous(), targets.contiguous(), parts, columns, BLOCK=2048)
        total_by_batch[(1,)](parts, loss, rows, BLOCK=2048, num_warps=8)
        return loss
