import helion
import helion.language as hl
import torch
from torch import nn


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8))
def row_softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for row in hl.tile(x.size(0)):
        values = x[row, :]
        powers = torch.exp(values - torch.amax(values, dim=1, keepdim=True))
        y[row, :] = powers / torch.sum(powers, dim=1, keepdim=True)
    return y


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.contiguous().view(-1, x.shape[-1])
        return row_softmax(rows).view(x.shape)
