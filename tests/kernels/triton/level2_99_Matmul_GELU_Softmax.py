"""The product with GELU in its epilogue, then the softmax of whole rows."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_gelu(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
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
    acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def softmax_rows(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + i, mask=i < columns, other=float("-inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + i, x / tl.sum(x, axis=0), mask=i < columns)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = x.contiguous()
        weight = self.linear.weight
        M, K = x.shape
        N = weight.shape[0]
        hidden, y = x.new_empty((M, N)), x.new_empty((M, N))
        linear_gelu[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
            x, weight, self.linear.bias, hidden, M, N, K, BM=128, BN=128, BK=32, num_warps=8, num_stages=3
        )
        block = triton.next_power_of_2(N)
        softmax_rows[(M,)](hidden, y, N, BLOCK=block, num_warps=max(1, min(16, block // 512)))
        return y
