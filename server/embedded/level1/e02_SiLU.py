"""SiLU of every element."""

import torch
from torch import nn

ROWS, COLS = (32768, 2048) if torch.cuda.is_available() else (1024, 2048)


class Model(nn.Module):
    """y = x * sigmoid(x)"""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(ROWS, COLS)]


def get_init_inputs() -> list[object]:
    return []
