"""Cosine similarity of paired rows as a margin loss of each row, labels +1 or -1."""

import torch
from torch import nn

ROWS, DIM = (1048576, 64) if torch.cuda.is_available() else (16384, 64)


class Model(nn.Module):
    """y = 1 - cos where label > 0, else 4 * max(0, cos + 0.1)"""

    def forward(self, a: torch.Tensor, b: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        dot = torch.sum(a * b, dim=-1)
        norms = torch.sqrt(torch.sum(a * a, dim=-1) * torch.sum(b * b, dim=-1) + 1e-12)
        cosine = dot / norms
        return torch.where(label > 0, 1.0 - cosine, 4.0 * torch.relu(cosine + 0.1))


def get_inputs() -> list[torch.Tensor]:
    a = torch.randn(ROWS, DIM)
    mix = 2.0 * torch.rand(ROWS, 1) - 1.0
    label = 2 * torch.randint(0, 2, (ROWS,)) - 1
    return [a, mix * a + 0.7 * torch.randn(ROWS, DIM), label]


def get_init_inputs() -> list[object]:
    return []
