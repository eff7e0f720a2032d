"""mean(max(0, 1 - p * t)), where the targets' only dimension meets the predictions' last by broadcasting."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def hinge_rows(p_ptr, t_ptr, part_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * columns + i, mask=i < columns, other=1.0)
        t = tl.load(t_ptr + i, mask=i < columns, other=1.0)
        total += tl.maximum(1.0 - p * t, 0.0)
    tl.store(part_ptr + row, tl.sum(total, axis=0))


@triton.jit
def mean_of_rows(part_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, rows, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + i, mask=i < rows, other=0.0) / columns
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        rows, columns = predictions.shape
        parts = torch.empty(rows, dtype=torch.float32, device=predictions.device)
        loss = torch.empty((), dtype=predictions.dtype, device=predictions.device)
        targets = targets.expand(columns).contiguous()
        hinge_rows[(rows,)](predictions.contiguous(), targets, parts, columns, BLOCK=4096, num_warps=8)
        mean_of_rows[(1,)](parts, loss, rows, columns, BLOCK=2048, num_warps=8)
        return loss
