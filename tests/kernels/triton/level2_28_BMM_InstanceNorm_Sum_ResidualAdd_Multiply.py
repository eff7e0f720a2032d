"""The product, then one kernel by rows: normalize, add and multiply."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
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
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def normalize_rows(x_ptr, y_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, BLOCK)
    inside = i < columns
    x = tl.load(x_ptr + row + i, mask=inside, other=0.0)
    y = tl.load(y_ptr + row + i, mask=inside, other=0.0)
    centered = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    variance = tl.sum(centered * centered, axis=0) / columns
    tl.store(out_ptr + row + i, (centered * tl.rsqrt(variance + eps) + y) * y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.bmm = nn.Linear(in_features, out_features)
        self.instance_norm = nn.InstanceNorm2d(out_features, eps=eps, momentum=momentum)

    def forward(self, x, y):
        x = x.contiguous()
        weight = self.bmm.weight
        M, K = x.shape
        N = weight.shape[0]
        hidden = x.new_empty((M, N))
        out = x.new_empty((M, N))
        linear[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
            x, weight, self.bmm.bias, hidden, M, N, K, BM=128, BN=128, BK=32, num_warps=8, num_stages=3
        )
        block = triton.next_power_of_2(N)
        normalize_rows[(M,)](
            hidden, y.contiguous(), out, N, self.instance_norm.eps,
            BLOCK=block, num_warps=max(1, min(16, block // 512)),
        )  # fmt: skip
        return out
