"""A 1D convolution: for each tap the weights' matrix times a shifted window of the sequence."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d(
    x_ptr, w_ptr, y_ptr, C, length, OC, out_length, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    DILATION: tl.constexpr, KERNEL: tl.constexpr, BL: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    out = tl.program_id(0) * BL + tl.arange(0, BL)
    oc = tl.program_id(1) * BO + tl.arange(0, BO)
    x_ptr += batch * C * length
    acc = tl.zeros((BO, BL), dtype=tl.float32)
    for step in range(tl.cdiv(C, BC) * KERNEL):
        tap = step % KERNEL
        c = step // KERNEL * BC + tl.arange(0, BC)
        i = out * STRIDE - PADDING + tap * DILATION
        mask = (c < C)[:, None] & ((i >= 0) & (i < length))[None, :]
        x = tl.load(x_ptr + c[:, None] * length + i[None, :], mask=mask, other=0.0)
        weight_mask = (oc < OC)[:, None] & (c < C)[None, :]
        weight = tl.load(w_ptr + (oc[:, None] * C + c[None, :]) * KERNEL + tap, mask=weight_mask, other=0.0)
        acc = tl.dot(weight, x, acc)
    offsets = (batch * OC + oc)[:, None] * out_length + out[None, :]
    tl.store(y_ptr + offsets, acc, mask=(oc < OC)[:, None] & (out < out_length)[None, :])


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        if groups != 1 or bias:
            raise NotImplementedError("groups and bias are not supported")
        self.conv1d = nn.Conv1d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, bias=bias
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv1d
        batch, C, length = x.shape
        OC, _, kernel = conv.weight.shape
        stride, padding, dilation = conv.stride[0], conv.padding[0], conv.dilation[0]
        out_length = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        y = x.new_empty((batch, OC, out_length))
        conv1d[(triton.cdiv(out_length, 128), triton.cdiv(OC, 128), batch)](
            x.contiguous(), conv.weight, y, C, length, OC, out_length, STRIDE=stride, PADDING=padding,
            DILATION=dilation, KERNEL=kernel, BL=128, BO=128, BC=32, num_warps=8, num_stages=2,
        )  # fmt: skip
        return y
