"""A gated recurrent cell run over a sequence; returns all states and the last one."""

import torch
from torch import nn

STEPS, BATCH, INNER, HIDDEN = (64, 512, 256, 512) if torch.cuda.is_available() else (24, 32, 64, 128)


class Model(nn.Module):
    """r, u = sigmoid(...); n = tanh(W x + r * (V h)); h = u * h + (1 - u) * n, from the given h"""

    def __init__(self, inner: int, hidden: int) -> None:
        super().__init__()
        self.gates_x = nn.Linear(inner, 3 * hidden)
        self.gates_h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = []
        for step in x:
            xr, xu, xn = self.gates_x(step).chunk(3, dim=-1)
            hr, hu, hn = self.gates_h(h).chunk(3, dim=-1)
            u = torch.sigmoid(xu + hu)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = u * h + (1.0 - u) * n
            states.append(h)
        return torch.stack(states), h


def get_inputs() -> list[torch.Tensor]:
    return [3.0 * torch.randn(STEPS, BATCH, INNER), torch.randn(BATCH, HIDDEN)]


def get_init_inputs() -> list[object]:
    return [INNER, HIDDEN]
