"""A long element-wise chain: bias, hard swish, channel scale, residual, clamp, soft shrink by magnitude."""

import torch
from torch import nn

ROWS, COLS = (16384, 4096) if torch.cuda.is_available() else (1024, 2048)


class Model(nn.Module):
    """h = x + bias; h = h clamp(h + 3, 0, 6) / 6; h = clamp(scale h + r, -2, 2.5); y = h - 0.2 h |h|"""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        h = x + self.bias
        h = h * torch.clamp(h + 3.0, 0.0, 6.0) / 6.0
        h = torch.clamp(h * self.scale + r, -2.0, 2.5)
        return h - 0.2 * h * torch.abs(h)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs() -> list[object]:
    return [COLS]
