"""Layer norm over millions of values a row: many programs share a row.

Means and squared deviations of blocks are exact in themselves and are combined pairwise in effect: the spread
of the blocks' means is added to the spread inside the blocks.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block_moments(x_ptr, count_ptr, mean_ptr, spread_ptr, columns, BLOCK: tl.constexpr):
    block, row = tl.program_id(0), tl.program_id(1)
    i = block * BLOCK + tl.arange(0, BLOCK)
    inside = i < columns
    x = tl.load(x_ptr + row.to(tl.int64) * columns + i, mask=inside, other=0.0)
    count = tl.sum(inside.to(tl.float32), axis=0)
    mean = tl.sum(x, axis=0) / count
    deviation = tl.where(inside, x - mean, 0.0)
    slot = row * tl.num_programs(0) + block
    tl.store(count_ptr + slot, count)
    tl.store(mean_ptr + slot, mean)
    tl.store(spread_ptr + slot, tl.sum(deviation * deviation, axis=0))


@triton.jit
def row_moments(count_ptr, mean_ptr, spread_ptr, row_ptr, blocks, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    slot = row * blocks + lane
    count = tl.load(count_ptr + slot, mask=lane < blocks, other=0.0)
    mean = tl.load(mean_ptr + slot, mask=lane < blocks, other=0.0)
    spread = tl.load(spread_ptr + slot, mask=lane < blocks, other=0.0)
    center = tl.sum(count * mean, axis=0) / columns
    shift = mean - center
    variance = tl.sum(spread + count * shift * shift, axis=0) / columns
    tl.store(row_ptr + 2 * row, center)
    tl.store(row_ptr + 2 * row + 1, tl.rsqrt(variance + eps))


@triton.jit
def normalize(x_ptr, weight_ptr, bias_ptr, row_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    mean, scale = tl.load(row_ptr + 2 * row), tl.load(row_ptr + 2 * row + 1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < columns
    offsets = row.to(tl.int64) * columns + i
    x = tl.load(x_ptr + offsets, mask=inside)
    y = (x - mean) * scale * tl.load(weight_ptr + i, mask=inside) + tl.load(bias_ptr + i, mask=inside)
    tl.store(y_ptr + offsets, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = math.prod(self.ln.normalized_shape)
        rows = x.numel() // columns
        block = 4096
        blocks = triton.cdiv(columns, block)
        count, mean, spread = torch.empty((3, rows, blocks), dtype=torch.float32, device=x.device).unbind(0)
        row = torch.empty((rows, 2), dtype=torch.float32, device=x.device)
        block_moments[(blocks, rows)](x, count, mean, spread, columns, BLOCK=block, num_warps=8)
        row_moments[(rows,)](
            count, mean, spread, row, blocks, columns, self.ln.eps, BLOCK=triton.next_power_of_2(blocks)
        )
        normalize[(blocks, rows)](x, self.ln.weight, self.ln.bias, row, y, columns, BLOCK=block, num_warps=8)
        return y
