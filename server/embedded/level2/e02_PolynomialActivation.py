"""A polynomial of degree five with coefficients of each channel, clamped and added to the input."""

import torch
from torch import nn

ROWS, COLS = (16384, 4096) if torch.cuda.is_available() else (1024, 2048)


class Model(nn.Module):
    """t = clamp(x, -1.5, 1.5); y = x + c0 + c1 t + ... + c5 t^5, with a row of coefficients each"""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.randn(6, cols) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = torch.clamp(x, -1.5, 1.5)
        y = self.coefficients[5] * t
        for power in (4, 3, 2, 1):
            y = (y + self.coefficients[power]) * t
        return x + (y + self.coefficients[0])


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLS)]


def get_init_inputs() -> list[object]:
    return [COLS]
