"""Token and position embeddings, a norm, a window over neighbours, and scores for each token."""

import torch
from torch import nn

BATCH, LENGTH, VOCABULARY, WIDTH, TAGS = (
    (64, 512, 8192, 256, 64) if torch.cuda.is_available() else (16, 96, 1024, 64, 16)
)


class Model(nn.Module):
    """h = norm(token[i] + place[t]); h = relu(conv over t, 3 wide); y = log_softmax(h T^T)"""

    def __init__(self, length: int, vocabulary: int, width: int, tags: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)
        nn.init.uniform_(self.norm.weight, 0.5, 2.0)
        nn.init.normal_(self.norm.bias)
        self.window = nn.Conv1d(width, width, 3, padding=1)
        self.tags = nn.Linear(width, tags)
        nn.init.normal_(self.tags.weight, std=0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.token(tokens) + self.place)
        h = torch.relu(self.window(h.transpose(1, 2))).transpose(1, 2)
        return torch.log_softmax(self.tags(h), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs() -> list[object]:
    return [LENGTH, VOCABULARY, WIDTH, TAGS]
