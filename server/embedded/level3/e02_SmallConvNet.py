"""Two convolutions with group norm and ReLU, pooling in between, and a linear head."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE, CLASSES = (64, 32, 96, 10) if torch.cuda.is_available() else (8, 16, 48, 10)


class Model(nn.Module):
    """conv, norm, relu, max pool; conv, norm, relu, mean over the plane; linear"""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norms = nn.ModuleList((nn.GroupNorm(4, channels), nn.GroupNorm(4, 2 * channels)))
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        self.head = nn.Linear(2 * channels, classes)
        nn.init.normal_(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norms[0](self.first(x)))
        h = torch.nn.functional.max_pool2d(h, 2)
        h = torch.relu(self.norms[1](self.second(h)))
        return self.head(h.mean(dim=(2, 3)))


def get_inputs() -> list[torch.Tensor]:
    tint = torch.randn(BATCH, 3, 1, 1)
    return [torch.randn(BATCH, 3, SIDE, SIDE) * (0.5 + torch.rand(BATCH, 3, 1, 1)) + tint]


def get_init_inputs() -> list[object]:
    return [CHANNELS, CLASSES]
