"""Rows of a table, chosen by integer indices."""

import torch
from torch import nn

VOCABULARY, WIDTH, COUNT = (65536, 512, 131072) if torch.cuda.is_available() else (8192, 256, 16384)


class Model(nn.Module):
    """y[i] = table[index[i]]"""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table(index)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, VOCABULARY, (COUNT,))]


def get_init_inputs() -> list[object]:
    return [VOCABULARY, WIDTH]
