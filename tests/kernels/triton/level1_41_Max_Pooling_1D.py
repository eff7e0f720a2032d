import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_pool(
    x_ptr, y_ptr, length, out_length, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    DILATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    out = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for tap in tl.static_range(KERNEL):
        i = out * STRIDE - PADDING + tap * DILATION
        x = tl.load(x_ptr + row * length + i, mask=(i >= 0) & (i < length), other=float("-inf"))
        best = tl.maximum(best, x)
    tl.store(y_ptr + row * out_length + out, best, mask=out < out_length)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False):
        super().__init__()
        if return_indices:
            raise NotImplementedError("indices are not returned")
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, features, length = x.shape
        span = self.dilation * (self.kernel_size - 1) + 1
        out_length = (length + 2 * self.padding - span) // self.stride + 1
        y = x.new_empty((batch, features, out_length))
        max_pool[(triton.cdiv(out_length, 1024), batch * features)](
            x.contiguous(), y, length, out_length, KERNEL=self.kernel_size, STRIDE=self.stride,
            PADDING=self.padding, DILATION=self.dilation, BLOCK=1024,
        )  # fmt: skip
        return y
