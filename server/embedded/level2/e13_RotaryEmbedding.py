"""Rotary position embedding of queries and keys, for integer positions: a tuple of two tensors."""

import torch
from torch import nn

BATCH, LENGTH, HEADS, DIM = (16, 2048, 16, 64) if torch.cuda.is_available() else (2, 768, 8, 64)


class Model(nn.Module):
    """Pairs (i, i + DIM / 2) are turned by position * rate[i]; returns (q, k)"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("rate", 1000.0 ** (-torch.arange(dim // 2) / (dim // 2)))

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        angle = (position.unsqueeze(-1) * self.rate).unsqueeze(2)
        cos, sin = torch.cos(angle), torch.sin(angle)
        return self.turn(q, cos, sin), self.turn(k, cos, sin)

    @staticmethod
    def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    shape = (BATCH, LENGTH, HEADS, DIM)
    return [torch.randn(shape), torch.randn(shape), torch.randint(1, LENGTH, (BATCH, LENGTH))]


def get_init_inputs() -> list[object]:
    return [DIM]
