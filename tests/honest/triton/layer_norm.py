import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    mean = x.sum(axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    var = (centred * centred).sum(axis=0) / n
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * n + cols, centred * tl.rsqrt(var + eps) * w + b, mask=mask)


class ModelNew(nn.Module):
    """Layer normalisation over the last dimension, in place of nn.LayerNorm and F.layer_norm(x, ...)."""

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        rows = x.numel() // n
        _layer_norm[(rows,)](x, self.weight, self.bias, y, n, self.eps, BLOCK=triton.next_power_of_2(n))
        return y
