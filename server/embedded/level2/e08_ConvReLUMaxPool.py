"""A 3x3 convolution, ReLU, a channel offset, 2x2 max pooling."""

import torch
from torch import nn

BATCH, INNER, OUTER, SIDE = (32, 32, 64, 112) if torch.cuda.is_available() else (4, 8, 16, 96)


class Model(nn.Module):
    """y = max_pool(relu(conv(x)) - offset)"""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, kernel_size=3, padding=1)
        self.offset = nn.Parameter(torch.randn(outer, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(torch.relu(self.conv(x)) - self.offset, 2)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(BATCH, INNER, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return [INNER, OUTER]
