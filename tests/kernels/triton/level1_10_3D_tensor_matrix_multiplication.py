"""A 3D tensor times a matrix is one product with the leading dimensions folded together."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # Programs with neighbouring ids share a row of tiles, whose part of A stays in the L2 cache.
    columns = tl.cdiv(N, BN)
    m = (tl.program_id(0) // columns) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
    a_ptr += m.to(tl.int64)[:, None] * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, K, BK, num_stages=3):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    c_ptr += m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_ptr, acc, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, A, B):
        folded = A.reshape(-1, A.shape[-1]).contiguous()
        M, K = folded.shape
        N = B.shape[1]
        C = A.new_empty((*A.shape[:-1], N))
        matmul[(triton.cdiv(M, 128) * triton.cdiv(N, 128),)](
            folded, B.contiguous(), C, M, N, K, BM=128, BN=128, BK=32, num_warps=8
        )
        return C
