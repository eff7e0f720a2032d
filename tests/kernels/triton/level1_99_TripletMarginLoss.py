"""Both distances of a row in one reading of the anchor; the norm's small constant is added to the difference."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_losses(a_ptr, p_ptr, n_ptr, loss_ptr, columns, margin, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    near = tl.zeros((BLOCK,), dtype=tl.float32)
    far = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < columns
        offsets = row * columns + i
        a = tl.load(a_ptr + offsets, mask=inside, other=0.0) + EPS
        dp = a - tl.load(p_ptr + offsets, mask=inside, other=EPS)
        dn = a - tl.load(n_ptr + offsets, mask=inside, other=EPS)
        near += dp * dp
        far += dn * dn
    gap = tl.sqrt(tl.sum(near, axis=0)) - tl.sqrt(tl.sum(far, axis=0)) + margin
    tl.store(loss_ptr + row, tl.maximum(gap, 0.0))


@triton.jit
def mean(loss_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, rows, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + i, mask=i < rows, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


class ModelNew(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        rows, columns = anchor.shape
        losses = torch.empty(rows, dtype=torch.float32, device=anchor.device)
        out = anchor.new_empty(())
        row_losses[(rows,)](
            anchor.contiguous(), positive.contiguous(), negative.contiguous(), losses, columns, self.margin,
            EPS=1e-6, BLOCK=2048, num_warps=8,
        )  # fmt: skip
        mean[(1,)](losses, out, rows, BLOCK=4096, num_warps=8)
        return out
