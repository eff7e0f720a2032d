"""A linear recurrence over time with a gate for each element: an operator call for every step."""

import torch
from torch import nn

STEPS, WIDTH = (128, 524288) if torch.cuda.is_available() else (64, 16384)


class Model(nn.Module):
    """g = sigmoid(z); h[t] = g[t] * h[t - 1] + (1 - g[t]) * x[t], from h = 0; returns all h"""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(z)
        state = torch.zeros_like(x[0])
        states = []
        for step in range(x.shape[0]):
            state = gate[step] * state + (1.0 - gate[step]) * x[step]
            states.append(state)
        return torch.stack(states)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(STEPS, WIDTH), torch.randn(STEPS, WIDTH) + 0.5]


def get_init_inputs() -> list[object]:
    return []
