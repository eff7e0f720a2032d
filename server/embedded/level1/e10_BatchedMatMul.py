"""A batch of small matrix products."""

import torch
from torch import nn

BATCH, M, N, K = (512, 256, 256, 128) if torch.cuda.is_available() else (64, 128, 128, 128)


class Model(nn.Module):
    """c[i] = a[i] b[i]"""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, M, K) * K**-0.5, torch.randn(BATCH, K, N)]


def get_init_inputs() -> list[object]:
    return []
