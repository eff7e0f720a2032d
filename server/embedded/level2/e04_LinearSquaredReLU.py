"""A linear layer, squared ReLU, and a scale for each output."""

import torch
from torch import nn

ROWS, INNER, OUTER = (4096, 2048, 2048) if torch.cuda.is_available() else (512, 512, 512)


class Model(nn.Module):
    """y = relu(x W^T + b)^2 * scale"""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.scale = nn.Parameter(torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.square(torch.relu(self.linear(x))) * self.scale


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(ROWS, INNER)]


def get_init_inputs() -> list[object]:
    return [INNER, OUTER]
