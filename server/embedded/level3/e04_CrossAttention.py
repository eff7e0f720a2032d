"""Multi-head attention over a second sequence, with a boolean mask of padded keys."""

import torch
from torch import nn

BATCH, QUERIES, KEYS, WIDTH, HEADS = (16, 256, 512, 512, 8) if torch.cuda.is_available() else (4, 96, 128, 256, 4)


class Model(nn.Module):
    """y = softmax(q k^T / sqrt(d), padded keys left out) v, projected; q from x, k and v from memory"""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(part) for part in (self.query(x), self.key(memory), self.value(memory)))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(padded[:, None, None, :], float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


def get_inputs() -> list[torch.Tensor]:
    lengths = torch.randint(KEYS // 4, KEYS, (BATCH, 1))
    padded = torch.arange(KEYS).unsqueeze(0) >= lengths
    return [4.0 * torch.randn(BATCH, QUERIES, WIDTH), 4.0 * torch.randn(BATCH, KEYS, WIDTH), padded]


def get_init_inputs() -> list[object]:
    return [WIDTH, HEADS]
