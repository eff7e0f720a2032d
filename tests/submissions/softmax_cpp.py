"""A right softmax over rows, in C++."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/Parallel.h>
#include <cmath>

torch::Tensor softmax(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int64_t rows = x.size(0), n = x.size(1);
  const float* in = x.data_ptr<float>();
  float* out = y.data_ptr<float>();
  at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* a = in + row * n;
      float* b = out + row * n;
      float top = a[0], total = 0.0f;
      for (int64_t i = 1; i < n; ++i) top = std::max(top, a[i]);
      for (int64_t i = 0; i < n; ++i) total += b[i] = std::exp(a[i] - top);
      for (int64_t i = 0; i < n; ++i) b[i] /= total;
    }
  });
  return y;
}
"""

extension = load_inline(name="softmax_ext", cpp_sources=[SOURCE], functions=["softmax"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)
