"""Two linear layers, one of them a SiLU gate for the other."""

import torch
from torch import nn

ROWS, INNER, OUTER = (4096, 1024, 2048) if torch.cuda.is_available() else (512, 384, 768)


class Model(nn.Module):
    """y = silu(x G^T) * (x U^T)"""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.gate = nn.Linear(inner, outer, bias=False)
        self.up = nn.Linear(inner, outer, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(self.gate(x)) * self.up(x)


def get_inputs() -> list[torch.Tensor]:
    return [3.0 * torch.randn(ROWS, INNER)]


def get_init_inputs() -> list[object]:
    return [INNER, OUTER]
