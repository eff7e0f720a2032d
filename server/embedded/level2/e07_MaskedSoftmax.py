"""Scaled scores, a boolean mask of forbidden places, softmax over short rows."""

import torch
from torch import nn

BATCH, ROWS, COLS = (4096, 128, 128) if torch.cuda.is_available() else (64, 64, 128)


class Model(nn.Module):
    """y = softmax(where(forbidden, -inf, scale * x), dim=-1); place 0 is never forbidden"""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(1) + 2.0)

    def forward(self, x: torch.Tensor, forbidden: torch.Tensor) -> torch.Tensor:
        return torch.softmax((self.scale * x).masked_fill(forbidden, float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    forbidden = torch.rand(BATCH, 1, COLS) < 0.5
    forbidden[..., 0] = False
    return [torch.randn(BATCH, ROWS, COLS), forbidden]


def get_init_inputs() -> list[object]:
    return []
