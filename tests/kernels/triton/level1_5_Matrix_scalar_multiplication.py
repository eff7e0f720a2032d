"""The scalar travels as a kernel argument; one pass over the matrix."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x_ptr, y_ptr, factor, total, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * factor, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, s: float) -> torch.Tensor:
        A = A.contiguous()
        C = torch.empty_like(A)
        total = A.numel()
        scale[(triton.cdiv(total, 4096),)](A, C, s, total, BLOCK=4096, num_warps=8)
        return C
