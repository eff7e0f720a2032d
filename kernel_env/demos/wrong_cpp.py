"""Wrong on purpose: the clamp is missing, so that elements beyond 1.5 come out wrong."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor polynomial(torch::Tensor x, torch::Tensor coefficients) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(-1);
    const int64_t rows = x.numel() / columns;
    const float* in = x.data_ptr<float>();
    const float* c = coefficients.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* source = in + row * columns;
        float* target = out + row * columns;
        for (int64_t j = 0; j < columns; ++j) {
            const float value = source[j];
            const float t = value;
            float sum = c[5 * columns + j];
            sum = sum * t + c[4 * columns + j];
            sum = sum * t + c[3 * columns + j];
            sum = sum * t + c[2 * columns + j];
            sum = sum * t + c[columns + j];
            sum = sum * t + c[j];
            target[j] = value + sum;
        }
    }
    return y;
}
"""

extension = load_inline(
    name="polynomial",
    cpp_sources=SOURCE,
    functions=["polynomial"],
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.randn(6, cols) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.polynomial(x.contiguous(), self.coefficients)
