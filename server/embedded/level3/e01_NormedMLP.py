"""A three-layer perceptron with layer norm and ReLU between the layers."""

from itertools import pairwise

import torch
from torch import nn

ROWS, WIDTHS = (16384, [1024, 2048, 1024, 256]) if torch.cuda.is_available() else (512, [256, 512, 256, 64])


class Model(nn.Module):
    """Linear, LayerNorm, ReLU; Linear, LayerNorm, ReLU; Linear"""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:-1])
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers[:-1], self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return self.layers[-1](x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTHS[0])]


def get_init_inputs() -> list[object]:
    return [WIDTHS]
