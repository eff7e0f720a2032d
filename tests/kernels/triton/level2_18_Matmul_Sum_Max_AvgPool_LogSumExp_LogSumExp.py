"""The sum over the outputs of a linear layer is a product with the sum of its weights.

For every input and every weight: sum_j (x . w_j + b_j) = x . (sum_j w_j) + sum_j b_j. What follows the sum
works on one value a row and leaves it as it is. So the weights are read once, and no matrix product is needed.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_weights(w_ptr, part_ptr, N, K, per_slice, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    first = part * per_slice
    last = tl.minimum(first + per_slice, N)
    pointers = w_ptr + first.to(tl.int64) * K + k
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(first, last):
        total += tl.load(pointers, mask=k < K, other=0.0)
        pointers += K
    tl.store(part_ptr + part * K + k, total, mask=k < K)


@triton.jit
def add_slices(part_ptr, sum_ptr, K, slices, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(slices):
        total += tl.load(part_ptr + part * K + k, mask=k < K, other=0.0)
    tl.store(sum_ptr + k, total, mask=k < K)


@triton.jit
def row_dots(x_ptr, sum_ptr, b_ptr, y_ptr, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
        total += x * tl.load(sum_ptr + k, mask=k < K, other=0.0)
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        total += tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(y_ptr + row, tl.sum(total, axis=0))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        weight = self.linear.weight
        N, K = weight.shape
        rows = x.shape[0]
        slices = min(64, N)
        per_slice = triton.cdiv(N, slices)
        parts = torch.empty((slices, K), device=x.device, dtype=torch.float32)
        total = torch.empty(K, device=x.device, dtype=torch.float32)
        y = torch.empty((rows, 1), device=x.device, dtype=x.dtype)
        sum_weights[(triton.cdiv(K, 512), slices)](weight, parts, N, K, per_slice, BLOCK=512)
        add_slices[(triton.cdiv(K, 256),)](parts, total, K, slices, BLOCK=256)
        row_dots[(rows,)](x.contiguous(), total, self.linear.bias, y, N, K, BLOCK=1024)
        return y
