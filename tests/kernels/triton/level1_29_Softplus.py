"""log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which holds for numbers of any size."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softplus(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        n = x.numel()
        softplus[(triton.cdiv(n, 4096),)](x.contiguous(), y, n, BLOCK=4096, num_warps=8)
        return y
