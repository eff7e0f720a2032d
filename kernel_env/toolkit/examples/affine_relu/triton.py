import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def affine_relu(x_ptr, scale_ptr, shift_ptr, y_ptr, total, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    column = offsets % columns
    x = tl.load(x_ptr + offsets, mask=inside)
    scale = tl.load(scale_ptr + column, mask=inside)
    shift = tl.load(shift_ptr + column, mask=inside)
    tl.store(y_ptr + offsets, tl.maximum(x * scale + shift, 0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        total = x.numel()
        grid = (triton.cdiv(total, 1024),)
        affine_relu[grid](x, self.scale, self.shift, y, total, x.shape[-1], BLOCK=1024)
        return y
