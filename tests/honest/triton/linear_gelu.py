import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def linear_gelu_kernel(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in tl.range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, w, acc)
    bias = tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(
        y_ptr + m[:, None] * N + n[None, :], gelu(acc + bias[None, :]), mask=(m[:, None] < M) & (n[None, :] < N)
    )


class ModelNew(nn.Module):
    """nn.Linear only holds the weights; `self.fc(x)` is never called."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(p=0.0)

    def forward(self, x):
        x2 = x.reshape(-1, x.shape[-1])
        M, K = x2.size()
        N = self.fc.out_features
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        linear_gelu_kernel[grid](x2, self.fc.weight, self.fc.bias, y, M, N, K, BM=32, BN=32, BK=32)
        return y.view(*x.shape[:-1], N)


_UNUSED = libdevice
