"""A perceptron that encodes and decodes; returns the reconstruction, the code and the row errors."""

import torch
from torch import nn

ROWS, WIDTH, HIDDEN, CODE = (16384, 784, 512, 32) if torch.cuda.is_available() else (512, 392, 512, 16)


class Model(nn.Module):
    """code = E2 tanh(E1 x); y = D2 tanh(D1 code); returns (y, code, mean over the row of (y - x)^2)"""

    def __init__(self, width: int, hidden: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.Tanh(), nn.Linear(hidden, width))
        nn.init.normal_(self.encoder[2].weight, std=2.0 * hidden**-0.5)
        nn.init.normal_(self.decoder[0].weight, std=code**-0.5)
        nn.init.normal_(self.decoder[2].weight, std=2.0 * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        code = self.encoder(x)
        y = self.decoder(code)
        return y, code, torch.mean(torch.square(y - x), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH) * (0.5 + 2.0 * torch.rand(ROWS, 1))]


def get_init_inputs() -> list[object]:
    return [WIDTH, HIDDEN, CODE]
