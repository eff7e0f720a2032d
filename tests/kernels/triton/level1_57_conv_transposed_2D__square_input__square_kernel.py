"""A transposed convolution, gathered: output (i, j) takes from input (i - kh, j - kw) for each tap.

Weights are copied to (kh, kw, out, in) first, so that a tap's matrix is contiguous.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_transpose2d(
    x_ptr, w_ptr, y_ptr, C, H, W, OC, OH, OW, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    KERNEL: tl.constexpr, BP: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    oc = tl.program_id(1) * BO + tl.arange(0, BO)
    oh, ow = pixel // OW + PADDING, pixel % OW + PADDING
    x_ptr += image * C * H * W
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    blocks = tl.cdiv(C, BC)
    for step in range(KERNEL * KERNEL * blocks):
        tap = step // blocks
        dh, dw = oh - tap // KERNEL, ow - tap % KERNEL
        h, w = dh // STRIDE, dw // STRIDE
        hit = (dh >= 0) & (dw >= 0) & (h < H) & (w < W) & (pixel < OH * OW)
        if STRIDE > 1:
            hit = hit & (dh % STRIDE == 0) & (dw % STRIDE == 0)
        c = step % blocks * BC + tl.arange(0, BC)
        source = c[:, None] * (H * W) + (h * W + w)[None, :]
        x = tl.load(x_ptr + source, mask=(c < C)[:, None] & hit[None, :], other=0.0)
        weight_mask = (oc < OC)[:, None] & (c < C)[None, :]
        weight = tl.load(w_ptr + (tap * OC + oc)[:, None] * C + c[None, :], mask=weight_mask, other=0.0)
        acc = tl.dot(weight, x, acc)
    out = image * OC * OH * OW + oc[:, None] * (OH * OW) + pixel[None, :]
    tl.store(y_ptr + out, acc, mask=(oc < OC)[:, None] & (pixel < OH * OW)[None, :])


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=False
    ):
        super().__init__()
        if groups != 1 or bias:
            raise NotImplementedError("groups and bias are not supported")
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding,
            output_padding=output_padding, groups=groups, bias=bias,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv_transpose2d
        n, C, H, W = x.shape
        _, OC, kernel, _ = conv.weight.shape
        stride, padding = conv.stride[0], conv.padding[0]
        OH, OW = ((size - 1) * stride - 2 * padding + kernel + conv.output_padding[0] for size in (H, W))
        weight = conv.weight.permute(2, 3, 1, 0).contiguous()
        y = x.new_empty((n, OC, OH, OW))
        block_oc = 64
        conv_transpose2d[(triton.cdiv(OH * OW, 128), triton.cdiv(OC, block_oc), n)](
            x.contiguous(), weight, y, C, H, W, OC, OH, OW, STRIDE=stride, PADDING=padding, KERNEL=kernel,
            BP=128, BO=block_oc, BC=32, num_warps=4, num_stages=3,
        )  # fmt: skip
        return y
