import torch
import torch.nn as nn
import torch.utils.cpp_extension

CUDA = r"""
#include <torch/all.h>
#include <torch/library.h>
#include <cub/cub.cuh>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CUDA_CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    printf("%s\n", cudaGetErrorString(e)); exit(1); } } while (0)

namespace own {

template <int THREADS>
__global__ void row_sum(const float* x, float* out, int n) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    float v = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) v += x[blockIdx.x * n + i];
    v = Reduce(storage).Sum(v);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

torch::Tensor sum(const torch::Tensor& x) {
    CHECK_INPUT(x);
    torch::NoGradGuard no_grad;
    auto out = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
    row_sum<256><<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    CUDA_CHECK(cudaGetLastError());
    return out;
}

}  // namespace own

TORCH_LIBRARY(own_sum, m) { m.def("sum(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(own_sum, CUDA, m) { m.impl("sum", &own::sum); }
"""

torch.utils.cpp_extension.load_inline(
    name="own_sum", cpp_sources="", cuda_sources=CUDA, is_python_module=False, no_implicit_headers=True
)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return torch.ops.own_sum.sum(x.contiguous())
