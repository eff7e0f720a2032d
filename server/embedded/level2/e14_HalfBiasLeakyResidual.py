"""Half-precision chain: bias, leaky ReLU, channel scale, residual, clamp; rounded after every step."""

import torch
from torch import nn

ROWS, COLS = (16384, 4096) if torch.cuda.is_available() else (2048, 2048)


class Model(nn.Module):
    """y = clamp(leaky_relu(x + bias, 0.1) * scale + r, -2, 2); all float16"""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols).half())
        self.scale = nn.Parameter((torch.rand(cols) + 0.5).half())

    def forward(self, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.leaky_relu(x + self.bias, 0.1) * self.scale
        return torch.clamp(h + r, -2.0, 2.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLS).half(), torch.randn(ROWS, COLS).half()]


def get_init_inputs() -> list[object]:
    return [COLS]
