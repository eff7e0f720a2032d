from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <cmath>

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int64_t M = x.size(0), K = x.size(1), N = w.size(0);
    auto y = torch::empty({M, N}, x.options());
    const float* in = x.data_ptr<float>();
    const float* weight = w.data_ptr<float>();
    const float* bias = b.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
            float total = bias[n];
            #pragma omp simd reduction(+ : total)
            for (int64_t k = 0; k < K; ++k) total += in[m * K + k] * weight[n * K + k];
            out[m * N + n] = 0.5f * total * (1.0f + std::erf(total * 0.70710678f));
        }
    }
    return y;
}
"""

extension = load_inline(
    name="linear_gelu",
    cpp_sources=CPP_SOURCE,
    functions=["linear_gelu"],
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)  # for its weights; it is not called

    def forward(self, x):
        return extension.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias)
