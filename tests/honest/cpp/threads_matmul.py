import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <thread>
#include <vector>
#include <algorithm>

static void rows(const float* a, const float* b, float* c, int64_t lo, int64_t hi, int64_t K, int64_t N) {
    for (int64_t i = lo; i < hi; ++i) {
        std::fill(c + i * N, c + (i + 1) * N, 0.f);
        for (int64_t k = 0; k < K; ++k) {
            const float x = a[i * K + k];
#pragma omp simd
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += x * b[k * N + j];
        }
    }
}

torch::Tensor mm(torch::Tensor a, torch::Tensor b, int64_t workers) {
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "shapes do not fit: don't");
    auto c = torch::empty({a.size(0), b.size(1)}, a.options());
    const int64_t M = a.size(0), step = (M + workers - 1) / workers;
    std::vector<std::thread> pool;
    for (int64_t lo = 0; lo < M; lo += step)
        pool.emplace_back(rows, a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), lo,
                          std::min(lo + step, M), a.size(1), b.size(1));
    for (auto& t : pool) t.join();
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("mm", &mm, "matrix product"); }
"""

ext = load_inline(
    name="threads_matmul",
    cpp_sources=SOURCE,
    extra_cflags=["-O3", "-fopenmp"],
    extra_ldflags=["-lgomp", "-lpthread"],
)
WORKERS = len(os.sched_getaffinity(0))


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        weight = torch.empty(size, size)
        nn.init.xavier_uniform_(weight)
        self.weight_t = nn.Parameter(weight.t().contiguous())

    def forward(self, x):
        return ext.mm(x, self.weight_t, WORKERS)
