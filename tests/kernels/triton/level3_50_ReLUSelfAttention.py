"""Self-attention with ReLU in place of softmax: what it weighs needs no normalization, so it is a plain sum.

Positions that the causal mask removes have weight zero, and the loop over keys ends at the diagonal.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def relu_attention(qkv_ptr, o_ptr, T, heads, scale, WIDTH: tl.constexpr, BQ: tl.constexpr, BT: tl.constexpr):
    batch, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    channels = heads * WIDTH
    row = 3 * channels
    qkv_ptr += batch * T * row + head * WIDTH
    first = tl.program_id(0) * BQ
    t = first + tl.arange(0, BQ)
    d = tl.arange(0, WIDTH)
    q = tl.load(qkv_ptr + t[:, None] * row + d[None, :], mask=(t < T)[:, None], other=0.0)
    acc = tl.zeros((BQ, WIDTH), dtype=tl.float32)
    for start in range(0, tl.minimum(first + BQ, T), BT):
        s = start + tl.arange(0, BT)
        k = tl.load(qkv_ptr + channels + s[:, None] * row + d[None, :], mask=(s < T)[:, None], other=0.0)
        v = tl.load(qkv_ptr + 2 * channels + s[:, None] * row + d[None, :], mask=(s < T)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        keep = (t[:, None] >= s[None, :]) & (scores > 0)
        acc = tl.dot(tl.where(keep, scores, 0.0), v, acc)
    out = (batch * T + t)[:, None] * channels + head * WIDTH + d[None, :]
    tl.store(o_ptr + out, acc, mask=(t < T)[:, None])


class ModelNew(nn.Module):
    def __init__(self, n_embd, n_head, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        mask = torch.tril(torch.ones(max_seqlen, max_seqlen))
        self.register_buffer("bias", mask.view(1, 1, max_seqlen, max_seqlen))
        self.n_head = n_head

    def forward(self, x):
        B, T, C = x.shape
        M, N = B * T, 3 * C
        qkv = x.new_empty((B, T, N))
        linear[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
            x.contiguous(), self.c_attn.weight, self.c_attn.bias, qkv, M, N, C,
            BM=128, BN=128, BK=32, num_warps=8, num_stages=3,
        )  # fmt: skip
        y = x.new_empty((B, T, C))
        width = C // self.n_head
        relu_attention[(triton.cdiv(T, 64), B * self.n_head)](
            qkv, y, T, self.n_head, 1.0 / math.sqrt(width), WIDTH=width, BQ=64, BT=64, num_warps=4, num_stages=2
        )
        return y
