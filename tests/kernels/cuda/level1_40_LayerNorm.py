"""Layer norm over millions of values a row. Many blocks share a row: each leaves count, mean and squared
deviation, which are merged exactly as Chan's formula says, first among threads, then among blocks.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int THREADS = 256;
constexpr int PARTS = 256;

struct Moments {
    float count, mean, spread;
};

__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float shift = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + shift * share, a.spread + b.spread + shift * shift * a.count * share};
}

__device__ __forceinline__ Moments warp_merge(Moments m) {
    for (int offset = 16; offset > 0; offset /= 2) {
        const float count = __shfl_xor_sync(0xffffffffu, m.count, offset);
        const float mean = __shfl_xor_sync(0xffffffffu, m.mean, offset);
        const float spread = __shfl_xor_sync(0xffffffffu, m.spread, offset);
        m = merge(m, {count, mean, spread});
    }
    return m;
}

// The block's moments, in every thread of its first warp.
__device__ Moments block_merge(Moments m) {
    __shared__ Moments warps[THREADS / 32];
    m = warp_merge(m);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
    __syncthreads();
    m = threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : Moments{0.0f, 0.0f, 0.0f};
    if (threadIdx.x < 32) m = warp_merge(m);
    return m;
}

__global__ void __launch_bounds__(THREADS) part_kernel(
    const float* __restrict__ x, float* __restrict__ parts, int64_t columns) {
    x += blockIdx.y * columns;
    Moments m = {0.0f, 0.0f, 0.0f};
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < columns; i += (int64_t)gridDim.x * THREADS) {
        const float v = x[i];
        m.count += 1.0f;
        const float shift = v - m.mean;
        m.mean += shift / m.count;
        m.spread += shift * (v - m.mean);
    }
    m = block_merge(m);
    if (threadIdx.x == 0) {
        float* slot = parts + 3 * (blockIdx.y * (int64_t)gridDim.x + blockIdx.x);
        slot[0] = m.count;
        slot[1] = m.mean;
        slot[2] = m.spread;
    }
}

__global__ void __launch_bounds__(THREADS) row_kernel(
    const float* __restrict__ parts, float* __restrict__ rows, int count, float columns, float eps) {
    Moments m = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const float* slot = parts + 3 * (blockIdx.x * (int64_t)count + i);
        m = merge(m, {slot[0], slot[1], slot[2]});
    }
    m = block_merge(m);
    if (threadIdx.x == 0) {
        rows[2 * blockIdx.x] = m.mean;
        rows[2 * blockIdx.x + 1] = rsqrtf(m.spread / columns + eps);
    }
}

__global__ void normalize_kernel(
    const float* __restrict__ x, const float* __restrict__ rows, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ y, int64_t columns) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float mean = rows[2 * blockIdx.y], scale = rows[2 * blockIdx.y + 1];
    if (i < columns) {
        const int64_t at = blockIdx.y * columns + i;
        y[at] = (x[at] - mean) * scale * weight[i] + bias[i];
    }
}

torch::Tensor own_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto y = torch::empty_like(x);
    const int64_t columns = weight.numel(), rows = x.numel() / columns;
    auto parts = torch::empty({rows, PARTS, 3}, x.options());
    auto moments = torch::empty({rows, 2}, x.options());
    part_kernel<<<dim3(PARTS, rows), THREADS>>>(x.data_ptr<float>(), parts.data_ptr<float>(), columns);
    row_kernel<<<rows, THREADS>>>(
        parts.data_ptr<float>(), moments.data_ptr<float>(), PARTS, (float)columns, (float)eps);
    normalize_kernel<<<dim3((columns + 255) / 256, rows), 256>>>(
        x.data_ptr<float>(), moments.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        y.data_ptr<float>(), columns);
    return y;
}
"""

CPP_SOURCE = "torch::Tensor own_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);"

extension = load_inline(
    name="own_norm_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["own_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.own_norm(x.contiguous(), self.ln.weight, self.ln.bias, self.ln.eps)
