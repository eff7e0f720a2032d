import torch
from torch import nn


class Model(nn.Module):
    """A linear layer and GELU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(96, 200)]


def get_init_inputs():
    return [200, 120]
