"""diag(A) @ B scales row i of B by A[i]: one pass over B, no matrix product."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_rows(a_ptr, b_ptr, c_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    factor = tl.load(a_ptr + row)
    values = tl.load(b_ptr + row * columns + column, mask=inside)
    tl.store(c_ptr + row * columns + column, factor * values, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B):
        B = B.contiguous()
        C = torch.empty_like(B)
        rows, columns = B.shape
        block = min(triton.next_power_of_2(columns), 4096)
        scale_rows[(rows, triton.cdiv(columns, block))](A.contiguous(), B, C, columns, BLOCK=block, num_warps=8)
        return C
