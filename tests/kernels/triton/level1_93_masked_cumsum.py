"""The mask is applied as the values are read: one pass instead of a product and a scan."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_cumsum(x_ptr, mask_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns, other=0.0)
        kept = tl.load(mask_ptr + row + i, mask=i < columns, other=0)
        x = x * kept.to(tl.float32)
        tl.store(y_ptr + row + i, carry + tl.cumsum(x, axis=0), mask=i < columns)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        x = x.transpose(self.dim, -1).contiguous()
        mask = mask.transpose(self.dim, -1).contiguous().view(torch.uint8)
        y = torch.empty_like(x)
        columns = x.shape[-1]
        masked_cumsum[(x.numel() // columns,)](x, mask, y, columns, BLOCK=2048, num_warps=4)
        return y.transpose(self.dim, -1)
