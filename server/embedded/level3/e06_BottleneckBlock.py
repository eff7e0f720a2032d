"""A residual bottleneck: 1x1, 3x3 and 1x1 convolutions with instance statistics in between."""

import torch
from torch import nn

BATCH, CHANNELS, NARROW, SIDE = (32, 256, 64, 56) if torch.cuda.is_available() else (4, 64, 16, 56)


class Model(nn.Module):
    """y = relu(x + widen(relu(norm(conv(relu(norm(shrink(x))))))))"""

    def __init__(self, channels: int, narrow: int) -> None:
        super().__init__()
        self.shrink = nn.Conv2d(channels, narrow, 1)
        self.conv = nn.Conv2d(narrow, narrow, 3, padding=1)
        self.widen = nn.Conv2d(narrow, channels, 1)
        self.norms = nn.ModuleList(nn.InstanceNorm2d(narrow, affine=True) for _ in range(2))
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 1.0, 2.0)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norms[0](self.shrink(x)))
        h = torch.relu(self.norms[1](self.conv(h)))
        return torch.relu(x + self.widen(h))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return [CHANNELS, NARROW]
