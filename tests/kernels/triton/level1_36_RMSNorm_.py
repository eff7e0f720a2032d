"""RMS over the channels of each pixel. A tile holds all channels of some pixels, so the data is read once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, y_ptr, channels, pixels, eps, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.arange(0, CHANNELS)
    offsets = image * channels * pixels + channel[:, None] * pixels + pixel[None, :]
    mask = (channel < channels)[:, None] & (pixel < pixels)[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / channels + eps)
    tl.store(y_ptr + offsets, x * scale[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        images, channels = x.shape[:2]
        pixels = x.numel() // (images * channels)
        grid = (triton.cdiv(pixels, 128), images)
        rms_norm[grid](
            x, y, channels, pixels, self.eps,
            CHANNELS=triton.next_power_of_2(channels), PIXELS=128, num_warps=8,
        )  # fmt: skip
        return y
