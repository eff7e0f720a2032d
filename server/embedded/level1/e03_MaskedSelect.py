"""Choice between two tensors by a boolean mask."""

import torch
from torch import nn

ROWS, COLS = (16384, 2560) if torch.cuda.is_available() else (1024, 2048)


class Model(nn.Module):
    """y = where(mask, a, b)"""

    def forward(self, a: torch.Tensor, b: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), torch.rand(ROWS, COLS) < 0.4]


def get_init_inputs() -> list[object]:
    return []
