import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def elu(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.where(x > 0, x, alpha * (tl.exp(tl.minimum(x, 0.0)) - 1.0)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        n = x.numel()
        elu[(triton.cdiv(n, 2048),)](x.contiguous(), y, self.alpha, n, BLOCK=2048)
        return y
