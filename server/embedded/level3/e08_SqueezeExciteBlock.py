"""Depthwise and pointwise convolution with a gate for each channel from the plane's mean."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE = (32, 128, 64) if torch.cuda.is_available() else (4, 48, 48)


class Model(nn.Module):
    """h = silu(depthwise(x)); h = h * sigmoid(excite(relu(squeeze(mean(h))))); y = x + pointwise(h)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.squeeze = nn.Linear(channels, channels // 4)
        self.excite = nn.Linear(channels // 4, channels)
        nn.init.normal_(self.squeeze.weight)
        nn.init.normal_(self.excite.weight)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.silu(self.depthwise(x))
        gate = torch.relu(self.squeeze(h.mean(dim=(2, 3))))
        h = h * torch.sigmoid(self.excite(gate))[:, :, None, None]
        return x + self.pointwise(h)


def get_inputs() -> list[torch.Tensor]:
    return [2.0 * torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs() -> list[object]:
    return [CHANNELS]
