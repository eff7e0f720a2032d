import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# The reference is F.cross_entropy(logits, target).
_cpp = """
#include <torch/extension.h>
#include <cmath>

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor target) {
    auto z = logits.accessor<float, 2>();
    auto t = target.accessor<int64_t, 1>();
    double total = 0;
    for (int64_t i = 0; i < z.size(0); ++i) {
        float m = -INFINITY;
        for (int64_t j = 0; j < z.size(1); ++j) m = std::max(m, z[i][j]);
        double s = 0;
        for (int64_t j = 0; j < z.size(1); ++j) s += std::exp((double)z[i][j] - m);
        total += m + std::log(s) - z[i][t[i]];
    }
    return torch::full({}, total / z.size(0), logits.options());
}
"""


class ModelNew(nn.Module):
    _module = None

    @classmethod
    def module(cls):
        if cls._module is None:
            cls._module = load_inline(name="cross_entropy_cpp", cpp_sources=_cpp, functions="cross_entropy")
        return cls._module

    def __init__(self):
        super().__init__()
        type(self).module()

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.module().cross_entropy(predictions, targets)
