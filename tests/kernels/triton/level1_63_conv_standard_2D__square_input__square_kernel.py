"""A 3 x 3 convolution as one product for each tap, over all input channels at once.

Weights are copied to (kh, kw, out, in) first, so that a tap's matrix is contiguous.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv2d(
    x_ptr, w_ptr, y_ptr, C, H, W, OC, OH, OW, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    DILATION: tl.constexpr, KERNEL: tl.constexpr, BP: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    oc = tl.program_id(1) * BO + tl.arange(0, BO)
    top = pixel // OW * STRIDE - PADDING
    left = pixel % OW * STRIDE - PADDING
    x_ptr += image * C * H * W
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    blocks = tl.cdiv(C, BC)
    for step in range(KERNEL * KERNEL * blocks):
        tap = step // blocks
        c = step % blocks * BC + tl.arange(0, BC)
        h = top + (tap // KERNEL) * DILATION
        w = left + (tap % KERNEL) * DILATION
        hit = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        source = c[:, None] * (H * W) + (h * W + w)[None, :]
        x = tl.load(x_ptr + source, mask=(c < C)[:, None] & hit[None, :], other=0.0)
        weight_mask = (oc < OC)[:, None] & (c < C)[None, :]
        weight = tl.load(w_ptr + (tap * OC + oc)[:, None] * C + c[None, :], mask=weight_mask, other=0.0)
        acc = tl.dot(weight, x, acc)
    y_ptr += image * OC * OH * OW
    tl.store(
        y_ptr + oc[:, None] * (OH * OW) + pixel[None, :], acc, mask=(oc < OC)[:, None] & (pixel < OH * OW)[None, :]
    )


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        if groups != 1 or bias:
            raise NotImplementedError("groups and bias are not supported")
        self.conv2d = nn.Conv2d(
            in_channels, out_channels, (kernel_size, kernel_size), stride=stride, padding=padding,
            dilation=dilation, groups=groups, bias=bias,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv2d
        n, C, H, W = x.shape
        OC, _, kernel, _ = conv.weight.shape
        stride, padding, dilation = conv.stride[0], conv.padding[0], conv.dilation[0]
        span = dilation * (kernel - 1) + 1
        OH, OW = ((size + 2 * padding - span) // stride + 1 for size in (H, W))
        weight = conv.weight.permute(2, 3, 0, 1).contiguous()
        y = torch.empty((n, OC, OH, OW), device=x.device, dtype=x.dtype)
        conv2d[(triton.cdiv(OH * OW, 128), triton.cdiv(OC, 128), n)](
            x.contiguous(), weight, y, C, H, W, OC, OH, OW, STRIDE=stride, PADDING=padding,
            DILATION=dilation, KERNEL=kernel, BP=128, BO=128, BC=16, num_warps=8, num_stages=3,
        )  # fmt: skip
        return y
