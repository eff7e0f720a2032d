from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <algorithm>
#include <cmath>

torch::Tensor row_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(-1);
    const int64_t rows = x.numel() / columns;
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* source = in + row * columns;
        float* target = out + row * columns;
        const float largest = *std::max_element(source, source + columns);
        float sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) {
            target[j] = std::exp(source[j] - largest);
            sum += target[j];
        }
        for (int64_t j = 0; j < columns; ++j) target[j] /= sum;
    }
    return y;
}
"""

extension = load_inline(
    name="row_softmax",
    cpp_sources=CPP_SOURCE,
    functions=["row_softmax"],
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_softmax(x.contiguous())
