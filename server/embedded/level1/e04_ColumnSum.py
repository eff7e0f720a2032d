"""Sum over the rows of a matrix, scaled to unit variance."""

import torch
from torch import nn

ROWS, COLS = (32768, 4096) if torch.cuda.is_available() else (4096, 2048)


class Model(nn.Module):
    """y[j] = sum_i x[i, j]"""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLS) * ROWS**-0.5]


def get_init_inputs() -> list[object]:
    return []
