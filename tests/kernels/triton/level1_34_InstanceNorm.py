"""Instance norm: one program for each plane reads it for its statistics and again to write it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def instance_norm(x_ptr, y_ptr, pixels, eps, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64) * pixels
    x_ptr += plane
    y_ptr += plane
    pivot = tl.load(x_ptr)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, pixels, BLOCK):
        inside = start + lane < pixels
        x = tl.load(x_ptr + start + lane, mask=inside, other=0.0)
        x = tl.where(inside, x - pivot, 0.0)
        total += x
        squares += x * x
    offset = tl.sum(total, axis=0) / pixels
    variance = tl.sum(squares, axis=0) / pixels - offset * offset
    scale = tl.rsqrt(variance + eps)
    mean = pivot + offset
    for start in range(0, pixels, BLOCK):
        inside = start + lane < pixels
        x = tl.load(x_ptr + start + lane, mask=inside)
        tl.store(y_ptr + start + lane, (x - mean) * scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        images, channels, height, width = x.shape
        instance_norm[(images * channels,)](x, y, height * width, self.inorm.eps, BLOCK=4096, num_warps=8)
        return y
