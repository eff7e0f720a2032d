import helion
import helion.language as hl
import torch
from torch import nn


@helion.kernel(config=helion.Config(block_sizes=[1, 1024], num_warps=4))
def affine_relu(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    rows, columns = x.size()
    y = torch.empty_like(x)
    for row, column in hl.tile([rows, columns]):
        value = x[row, column] * scale[column] + shift[column]
        y[row, column] = torch.relu(value)
    return y


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        rows = x.contiguous().view(-1, x.shape[-1])
        return affine_relu(rows, self.scale, self.shift).view(x.shape)
