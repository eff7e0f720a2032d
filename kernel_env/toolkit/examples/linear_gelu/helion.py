import helion
import helion.language as hl
import torch
from torch import nn


@helion.kernel(config=helion.Config(block_sizes=[64, 64, 32], num_warps=4))
def linear_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows, inputs = x.size()
    outputs = weight.size(1)
    y = torch.empty([rows, outputs], dtype=x.dtype, device=x.device)
    for m, n in hl.tile([rows, outputs]):
        total = hl.zeros([m, n], dtype=torch.float32)
        for k in hl.tile(inputs):
            total = torch.addmm(total, x[m, k], weight[k, n])
        z = total + bias[n]
        y[m, n] = 0.5 * z * (1.0 + torch.erf(z * 0.7071067811865476))
    return y


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)  # for its weights; it is not called

    def forward(self, x):
        return linear_gelu(x.contiguous(), self.linear.weight.t(), self.linear.bias)
