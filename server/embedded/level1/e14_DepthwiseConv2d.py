"""Depthwise 3x3 convolution with bias."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE = (32, 128, 112) if torch.cuda.is_available() else (8, 32, 96)


class Model(nn.Module):
    """One 3x3 filter for each channel, padding 1"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return [CHANNELS]
