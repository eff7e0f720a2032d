"""A pre-norm transformer block: causal self-attention and a GELU perceptron, each with a residual."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH, HEADS = (8, 512, 512, 8) if torch.cuda.is_available() else (2, 64, 128, 4)


class Model(nn.Module):
    """h = x + attention(norm(x)); y = h + down(gelu(up(norm(h))))"""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList((nn.LayerNorm(width), nn.LayerNorm(width)))
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 1.0, 3.0)
            nn.init.normal_(norm.bias)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.norms[0](x))
        return h + self.down(torch.nn.functional.gelu(self.up(self.norms[1](h))))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WIDTH, HEADS]
