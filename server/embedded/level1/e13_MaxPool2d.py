"""Overlapping 3x3 max pooling with stride two."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE = (48, 64, 224) if torch.cuda.is_available() else (4, 32, 112)


class Model(nn.Module):
    """3x3 windows, stride 2, padding 1"""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return []
