import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
torch::Tensor affine_relu(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(-1);
    const int64_t rows = x.numel() / columns;
    const float* in = x.data_ptr<float>();
    const float* a = scale.data_ptr<float>();
    const float* b = shift.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* source = in + row * columns;
        float* target = out + row * columns;
        for (int64_t j = 0; j < columns; ++j) {
            const float value = source[j] * a[j] + b[j];
            target[j] = value > 0.0f ? value : 0.0f;
        }
    }
    return y;
}
"""

extension = load_inline(
    name="affine_relu",
    cpp_sources=CPP_SOURCE,
    functions=["affine_relu"],
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return extension.affine_relu(x.contiguous(), self.scale, self.shift)
