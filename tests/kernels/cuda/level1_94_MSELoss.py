"""Partial sums by a fixed number of blocks, added up by one; no atomics, so the result never varies."""

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

constexpr int THREADS = 512;

__global__ void __launch_bounds__(THREADS) part_kernel(
    const float* __restrict__ p, const float* __restrict__ t, float* __restrict__ parts, int64_t n) {
    __shared__ float scratch[THREADS / 32];
    const int64_t step = (int64_t)gridDim.x * THREADS, first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const float4* p4 = reinterpret_cast<const float4*>(p);
    const float4* t4 = reinterpret_cast<const float4*>(t);
    float total = 0.0f;
#pragma unroll 2
    for (int64_t i = first; i < n / 4; i += step) {
        const float4 a = p4[i], b = t4[i];
        total += (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
        total += (a.z - b.z) * (a.z - b.z) + (a.w - b.w) * (a.w - b.w);
    }
    for (int64_t i = n / 4 * 4 + first; i < n; i += step) total += (p[i] - t[i]) * (p[i] - t[i]);
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(THREADS) total_kernel(
    const float* __restrict__ parts, float* __restrict__ out, int count, float n) {
    __shared__ float scratch[THREADS / 32];
    float total = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS) total += parts[i];
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) *out = total / n;
}

torch::Tensor squared_error(torch::Tensor p, torch::Tensor t) {
    const int64_t n = p.numel();
    const int blocks = std::min<int64_t>((n / 4 + THREADS) / THREADS, 132 * 8);
    auto parts = torch::empty({blocks}, p.options());
    auto out = torch::empty({}, p.options());
    part_kernel<<<blocks, THREADS>>>(p.data_ptr<float>(), t.data_ptr<float>(), parts.data_ptr<float>(), n);
    total_kernel<<<1, THREADS>>>(parts.data_ptr<float>(), out.data_ptr<float>(), blocks, (float)n);
    return out;
}
"""

CPP_SOURCE = "torch::Tensor squared_error(torch::Tensor p, torch::Tensor t);"

extension = load_inline(
    name="squared_error_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["squared_error"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        return extension.squared_error(predictions.contiguous(), targets.contiguous())
