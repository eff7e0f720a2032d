"""A dilated, strided 1D convolution; (channel, tap) pairs are one inner dimension, gathered tile by tile."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d(
    x_ptr, w_ptr, y_ptr, C, length, OC, out_length, STRIDE: tl.constexpr, DILATION: tl.constexpr,
    KERNEL: tl.constexpr, BL: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64)
    out = tl.program_id(0) * BL + tl.arange(0, BL)
    oc = tl.program_id(2) * BO + tl.arange(0, BO)
    inner = C * KERNEL
    x_ptr += batch * C * length
    acc = tl.zeros((BO, BL), dtype=tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        source = (k // KERNEL) * length + (k % KERNEL) * DILATION
        mask = (k < inner)[:, None] & (out < out_length)[None, :]
        x = tl.load(x_ptr + source[:, None] + out[None, :] * STRIDE, mask=mask, other=0.0)
        weight_mask = (oc < OC)[:, None] & (k < inner)[None, :]
        weight = tl.load(w_ptr + oc[:, None] * inner + k[None, :], mask=weight_mask, other=0.0)
        acc = tl.dot(weight, x, acc)
    offsets = (batch * OC + oc)[:, None] * out_length + out[None, :]
    tl.store(y_ptr + offsets, acc, mask=(oc < OC)[:, None] & (out < out_length)[None, :])


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, dilation=1, bias=False):
        super().__init__()
        if bias:
            raise NotImplementedError("bias is not supported")
        self.conv1d = nn.Conv1d(
            in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, bias=bias
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv1d
        batch, C, length = x.shape
        OC, _, kernel = conv.weight.shape
        stride, dilation = conv.stride[0], conv.dilation[0]
        out_length = (length - dilation * (kernel - 1) - 1) // stride + 1
        y = torch.empty((batch, OC, out_length), device=x.device, dtype=x.dtype)
        conv1d[(triton.cdiv(out_length, 128), batch, triton.cdiv(OC, 128))](
            x.contiguous(), conv.weight, y, C, length, OC, out_length,
            STRIDE=stride, DILATION=dilation, KERNEL=kernel, BL=128, BO=128, BK=32, num_warps=8, num_stages=2,
        )  # fmt: skip
        return y
