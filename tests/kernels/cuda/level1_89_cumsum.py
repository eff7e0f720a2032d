"""A block scans its row 1024 values at a time: four in a thread, then among lanes, then among warps."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int THREADS = 256;
constexpr int EACH = 4;

__global__ void __launch_bounds__(THREADS) cumsum_kernel(
    const float* __restrict__ x, float* __restrict__ y, int64_t columns) {
    __shared__ float warp_totals[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float carry = 0.0f;
    for (int64_t start = 0; start < columns; start += THREADS * EACH) {
        const int64_t first = start + threadIdx.x * EACH;
        float v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            v[i] = first + i < columns ? x[first + i] : 0.0f;
            if (i > 0) v[i] += v[i - 1];
        }
        float scan = v[EACH - 1];
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float left = __shfl_up_sync(0xffffffffu, scan, offset);
            if (lane >= offset) scan += left;
        }
        if (lane == 31) warp_totals[warp] = scan;
        __syncthreads();
        float before = carry, all = 0.0f;
        for (int i = 0; i < THREADS / 32; ++i) {
            if (i < warp) before += warp_totals[i];
            all += warp_totals[i];
        }
        before += scan - v[EACH - 1];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (first + i < columns) y[first + i] = before + v[i];
        carry += all;
        __syncthreads();
    }
}

torch::Tensor scan_rows(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(-1);
    cumsum_kernel<<<x.numel() / columns, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns);
    return y;
}
"""

CPP_SOURCE = "torch::Tensor scan_rows(torch::Tensor x);"

extension = load_inline(
    name="scan_rows_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["scan_rows"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        y = extension.scan_rows(x.transpose(self.dim, -1).contiguous())
        return y.transpose(self.dim, -1)
