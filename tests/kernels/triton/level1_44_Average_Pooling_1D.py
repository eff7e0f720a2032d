"""The padding counts as zeros, so every window is divided by the full kernel size."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_pool(
    x_ptr, y_ptr, length, out_length, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    out = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(KERNEL):
        i = out * STRIDE - PADDING + tap
        total += tl.load(x_ptr + row * length + i, mask=(i >= 0) & (i < length), other=0.0)
    tl.store(y_ptr + row * out_length + out, total * (1.0 / KERNEL), mask=out < out_length)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int = 1, padding: int = 0):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, length = x.shape
        out_length = (length + 2 * self.padding - self.kernel_size) // self.stride + 1
        y = torch.empty((batch, channels, out_length), device=x.device, dtype=x.dtype)
        average_pool[(triton.cdiv(out_length, 1024), batch * channels)](
            x.contiguous(), y, length, out_length,
            KERNEL=self.kernel_size, STRIDE=self.stride, PADDING=self.padding, BLOCK=1024,
        )  # fmt: skip
        return y
