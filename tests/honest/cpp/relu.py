import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <ATen/Parallel.h>

at::Tensor relu(at::Tensor x) {
    auto y = at::empty_like(x);
    const float* in = x.const_data_ptr<float>();
    float* out = y.data_ptr<float>();
    at::parallel_for(0, x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = in[i] > 0.f ? in[i] : 0.f;
    });
    return y;
}
"""

extension = load_inline("cpu_relu", SOURCE, functions=["relu"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu(x.contiguous())
