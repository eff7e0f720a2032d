"""A 1 x 1 convolution is a product for each image; all channels of some pixels are one tile."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise(
    x_ptr, w_ptr, b_ptr, y_ptr, C, OC, pixels, BIAS: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    oc = tl.program_id(2) * BO + tl.arange(0, BO)
    x_ptr += image * C * pixels
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        weight = tl.load(
            w_ptr + oc[:, None] * C + c[None, :], mask=(oc < OC)[:, None] & (c < C)[None, :], other=0.0
        )
        x = tl.load(
            x_ptr + c[:, None] * pixels + pixel[None, :],
            mask=(c < C)[:, None] & (pixel < pixels)[None, :],
            other=0.0,
        )
        acc = tl.dot(weight, x, acc)
    if BIAS:
        acc += tl.load(b_ptr + oc, mask=oc < OC, other=0.0)[:, None]
    offsets = (image * OC + oc)[:, None] * pixels + pixel[None, :]
    tl.store(y_ptr + offsets, acc, mask=(oc < OC)[:, None] & (pixel < pixels)[None, :])


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, bias: bool = False):
        super().__init__()
        self.conv1d = nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=1, padding=0, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, C, H, W = x.shape
        weight, bias = self.conv1d.weight, self.conv1d.bias
        OC = weight.shape[0]
        y = torch.empty((n, OC, H, W), device=x.device, dtype=x.dtype)
        pointwise[(triton.cdiv(H * W, 128), n, triton.cdiv(OC, 128))](
            x.contiguous(), weight, weight if bias is None else bias, y, C, OC, H * W,
            BIAS=bias is not None, BO=128, BP=128, BC=32, num_warps=8, num_stages=2,
        )  # fmt: skip
        return y
