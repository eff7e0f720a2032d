import torch
from torch import nn


class Model(nn.Module):
    """relu(x * scale + shift), with a scale and a shift for each column."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.scale + self.shift)


def get_inputs():
    return [torch.randn(512, 1000)]


def get_init_inputs():
    return [1000]
