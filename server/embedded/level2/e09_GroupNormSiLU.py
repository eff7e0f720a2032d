"""Group norm with a random affine map, SiLU, added to the input."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE, GROUPS = (64, 128, 96, 16) if torch.cuda.is_available() else (8, 32, 80, 8)


class Model(nn.Module):
    """y = 0.5 * x + silu(group_norm(x))"""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x + torch.nn.functional.silu(self.norm(x))


def get_inputs() -> list[torch.Tensor]:
    return [3.0 * torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return [GROUPS, CHANNELS]
