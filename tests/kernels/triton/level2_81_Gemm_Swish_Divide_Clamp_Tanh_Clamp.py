"""Five elementwise steps in the epilogue. After tanh the last clamp has nothing left to do."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def linear_chain(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
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
    acc = acc * tl.sigmoid(acc) * 0.5
    acc = tl.minimum(tl.maximum(acc, -1.0), 1.0)
    tl.store(y_ptr + m[:, None] * N + n[None, :], tanh(acc), mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        if not bias:
            raise NotImplementedError("the bias is always added")
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x):
        x = x.contiguous()
        weight = self.gemm.weight
        M, K = x.shape
        N = weight.shape[0]
        y = x.new_empty((M, N))
        linear_chain[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
            x, weight, self.gemm.bias, y, M, N, K, BM=128, BN=128, BK=32, num_warps=8, num_stages=3
        )
        return y
