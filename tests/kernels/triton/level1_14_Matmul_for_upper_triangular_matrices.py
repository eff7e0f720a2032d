"""Upper triangular times upper triangular: half of each input is never read, and a third of the work remains.

C[i, j] sums k from i to j, so a tile starts at its first row and ends at its last column; tiles below the
diagonal are zeros.
"""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upper_matmul(a_ptr, b_ptr, c_ptr, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # The longest sums come first: they are in the upper right corner.
    tile_m = tl.program_id(1)
    tile_n = tl.num_programs(0) - 1 - tl.program_id(0)
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    last = tl.minimum((tile_n + 1) * BN, N)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tile_m * BM, last, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * N + k[None, :], mask=(m < N)[:, None] & (k < last)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < last)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    acc = tl.where(m[:, None] <= n[None, :], acc, 0.0)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < N)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, A, B):
        N = A.shape[0]
        C = A.new_empty((N, N))
        tiles = triton.cdiv(N, 128)
        upper_matmul[(tiles, tiles)](
            A.contiguous(), B.contiguous(), C, N, BM=128, BN=128, BK=32, num_warps=8, num_stages=3
        )
        return C
