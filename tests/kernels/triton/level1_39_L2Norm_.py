"""x / ||x|| by rows. The second reading of a row finds much of it in the L2 cache."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2_norm(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    lane = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + lane
        x = tl.load(x_ptr + row + i, mask=i < columns, other=0.0, eviction_policy="evict_last")
        squares += x * x
    norm = tl.sqrt(tl.sum(squares, axis=0))
    for start in range(0, columns, BLOCK):
        i = start + lane
        x = tl.load(x_ptr + row + i, mask=i < columns, eviction_policy="evict_first")
        tl.store(y_ptr + row + i, x / norm, mask=i < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        l2_norm[(rows,)](x, y, columns, BLOCK=8192, num_warps=16)
        return y
