"""Product of a transposed matrix and a matrix."""

import torch
from torch import nn

M, N, K = (2048, 2048, 2048) if torch.cuda.is_available() else (512, 384, 512)


class Model(nn.Module):
    """c = a^T b, for a of shape (K, M) and b of shape (K, N)"""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.t(), b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(K, M) * K**-0.5, torch.randn(K, N)]


def get_init_inputs() -> list[object]:
    return []
