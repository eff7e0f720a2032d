"""A block takes four rows, so that the vector is read from the cache a quarter as often."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__device__ __forceinline__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
    return v;
}

// The block's sum, in thread 0. `scratch` holds one value for each warp.
__device__ float block_sum(float v, float* scratch) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_sum(v);
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = threadIdx.x < warps ? scratch[threadIdx.x] : 0.0f;
    if (warp == 0) v = warp_sum(v);
    __syncthreads();
    return v;
}

constexpr int ROWS = 4;
constexpr int THREADS = 512;

__global__ void __launch_bounds__(THREADS) matvec_kernel(
    const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int64_t M, int64_t K) {
    __shared__ float scratch[THREADS / 32];
    const int64_t row0 = (int64_t)blockIdx.x * ROWS;
    float acc[ROWS] = {};
#pragma unroll 4
    for (int64_t k = threadIdx.x; k < K; k += THREADS) {
        const float v = x[k];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (row0 + r < M) acc[r] += a[(row0 + r) * K + k] * v;
    }
    for (int r = 0; r < ROWS; ++r) {
        const float total = block_sum(acc[r], scratch);
        if (threadIdx.x == 0 && row0 + r < M) y[row0 + r] = total;
    }
}

torch::Tensor matvec(torch::Tensor a, torch::Tensor x) {
    const int64_t M = a.size(0), K = a.size(1);
    auto y = torch::empty({M, 1}, a.options());
    matvec_kernel<<<(M + ROWS - 1) / ROWS, THREADS>>>(
        a.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), M, K);
    return y;
}
"""

CPP_SOURCE = "torch::Tensor matvec(torch::Tensor a, torch::Tensor x);"

extension = load_inline(
    name="matvec_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["matvec"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return extension.matvec(A.contiguous(), B.contiguous())
