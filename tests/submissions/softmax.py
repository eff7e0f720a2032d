"""A right softmax over rows, in Triton."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * stride + column, mask=mask, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * stride + column, value / tl.sum(value, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, n = x.shape
        softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
        return y
