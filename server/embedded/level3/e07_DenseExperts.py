"""A softmax gate mixes the outputs of four small perceptrons."""

import torch
from torch import nn

ROWS, WIDTH, HIDDEN, EXPERTS = (4096, 512, 512, 4) if torch.cuda.is_available() else (512, 192, 192, 4)


class Model(nn.Module):
    """y = sum_e softmax(x G^T)[e] * (relu(x U[e]) D[e])"""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * (0.5 * hidden) ** -0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(self.gate(x), dim=-1)
        outputs = torch.relu(x @ self.up) @ self.down
        return torch.einsum("te,etw->tw", shares, outputs)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(ROWS, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WIDTH, HIDDEN, EXPERTS]
