import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _inner(acc, m, total, q, k_ptrs, v_ptrs, T, BT: tl.constexpr, D: tl.constexpr):
    for start in range(0, T, BT):
        t = start + tl.arange(0, BT)
        k = tl.load(k_ptrs + start * D, mask=t[None, :] < T, other=0.0)
        s = tl.where(t[None, :] < T, tl.dot(q, k), -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(m - new)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs + start * D, mask=t[:, None] < T, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p, v)
        m = new
    return acc, m, total


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, T, BQ: tl.constexpr, BT: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * T * D
    r = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + r[:, None] * D + d[None, :], mask=r[:, None] < T, other=0.0) * (scale * LOG2E)
    k_ptrs = k_ptr + base + tl.arange(0, BT)[None, :] * D + d[:, None]
    v_ptrs = v_ptr + base + tl.arange(0, BT)[:, None] * D + d[None, :]
    acc = tl.zeros((BQ, D), dtype=tl.float32)
    m = tl.full((BQ,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BQ,), dtype=tl.float32)
    acc, m, total = _inner(acc, m, total, q, k_ptrs, v_ptrs, T, BT, D)
    tl.store(o_ptr + base + r[:, None] * D + d[None, :], acc / total[:, None], mask=r[:, None] < T)


class ModelNew(nn.Module):
    """Replaces F.scaled_dot_product_attention(q, k, v)."""

    def forward(self, q, k, v):
        B, H, T, D = q.shape
        out = torch.empty_like(q)
        attention[(triton.cdiv(T, 16), B * H)](
            q.contiguous(), k.contiguous(), v.contiguous(), out, 1.0 / math.sqrt(D), T, BQ=16, BT=16, D=D
        )
        return out
