"""Dequantization of int8 values with a scale and offset for each channel, residual, ReLU6."""

import torch
from torch import nn

ROWS, COLS = (16384, 4096) if torch.cuda.is_available() else (1024, 2048)


class Model(nn.Module):
    """y = min(max((q - zero) * scale + r, 0), 6) - 1; q is int8, zero holds whole numbers"""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.scale = nn.Parameter((torch.rand(cols) + 0.5) / 32)
        self.zero = nn.Parameter(torch.round(16.0 * torch.randn(cols)))

    def forward(self, q: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        h = (q.float() - self.zero) * self.scale + r
        return torch.clamp(h, 0.0, 6.0) - 1.0


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(-128, 128, (ROWS, COLS), dtype=torch.int8), torch.randn(ROWS, COLS)]


def get_init_inputs() -> list[object]:
    return [COLS]
