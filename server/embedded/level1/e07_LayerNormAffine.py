"""Layer norm over the last dimension, with an affine map that is not the identity."""

import torch
from torch import nn

ROWS, COLS = (131072, 512) if torch.cuda.is_available() else (8192, 512)


class Model(nn.Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias"""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(cols)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [(0.5 + 3.0 * torch.rand(ROWS, 1)) * torch.randn(ROWS, COLS) + torch.randn(ROWS, 1)]


def get_init_inputs() -> list[object]:
    return [COLS]
