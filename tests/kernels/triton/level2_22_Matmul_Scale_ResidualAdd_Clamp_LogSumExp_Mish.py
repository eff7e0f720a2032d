"""The product's output is never stored: each tile leaves the maximum and the sum of exponentials of its rows.

A second kernel combines those of a row's tiles.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_row_statistics(
    x_ptr,
    w_ptr,
    b_ptr,
    top_ptr,
    sum_ptr,
    M,
    N,
    K,
    scale,
    low,
    high,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile_m, tile_n = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 8)
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n.to(tl.int64)[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        x = tl.load(x_ptrs + start, mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        w = tl.load(w_ptrs + start, mask=(n < N)[None, :] & (start + k < K)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    acc = tl.minimum(tl.maximum(acc * (2.0 * scale), low), high)
    acc = tl.where((n < N)[None, :], acc, float("-inf"))
    top = tl.max(acc, axis=1)
    total = tl.sum(tl.exp(acc - top[:, None]), axis=1)
    slot = m * tl.num_programs(1) + tile_n
    tl.store(top_ptr + slot, top, mask=m < M)
    tl.store(sum_ptr + slot, total, mask=m < M)


@triton.jit
def combine(top_ptr, sum_ptr, y_ptr, tiles, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tops = tl.load(top_ptr + row * tiles + i, mask=i < tiles, other=float("-inf"))
    sums = tl.load(sum_ptr + row * tiles + i, mask=i < tiles, other=0.0)
    top = tl.max(tops, axis=0)
    x = top + tl.log(tl.sum(sums * tl.exp(tops - top), axis=0))
    e = tl.exp(tl.minimum(x, 20.0))
    numerator = e * (e + 2.0)
    tl.store(y_ptr + row, x * x * numerator / (numerator + 2.0))


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size, scale_factor, clamp_min, clamp_max):
        super().__init__()
        self.matmul = nn.Linear(input_size, hidden_size)
        self.scale_factor = scale_factor
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x):
        x = x.contiguous()
        M, K = x.shape
        N = self.matmul.weight.shape[0]
        tiles = triton.cdiv(N, 128)
        tops, sums = torch.empty((2, M, tiles), device=x.device, dtype=torch.float32).unbind(0)
        y = x.new_empty((M, 1))
        linear_row_statistics[(triton.cdiv(M, 128), tiles)](
            x, self.matmul.weight, self.matmul.bias, tops, sums, M, N, K,
            self.scale_factor, self.clamp_min, self.clamp_max,
            BM=128, BN=128, BK=32, num_warps=8, num_stages=3,
        )  # fmt: skip
        combine[(M,)](tops, sums, y, tiles, BLOCK=triton.next_power_of_2(tiles))
        return y
