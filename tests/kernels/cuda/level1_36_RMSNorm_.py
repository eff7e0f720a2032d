"""A thread takes a pixel and keeps up to 64 channels in registers; with more channels it reads them twice."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

constexpr int HELD = 64;

__global__ void __launch_bounds__(256) held_kernel(
    const float* __restrict__ x, float* __restrict__ y, int channels, int64_t pixels, float eps) {
    const int64_t pixel = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= pixels) return;
    const int64_t start = blockIdx.y * (int64_t)channels * pixels + pixel;
    float held[HELD];
    float squares = 0.0f;
#pragma unroll
    for (int c = 0; c < HELD; ++c) {
        held[c] = c < channels ? x[start + c * pixels] : 0.0f;
        squares += held[c] * held[c];
    }
    const float scale = rsqrtf(squares / channels + eps);
#pragma unroll
    for (int c = 0; c < HELD; ++c)
        if (c < channels) y[start + c * pixels] = held[c] * scale;
}

__global__ void twice_kernel(
    const float* __restrict__ x, float* __restrict__ y, int channels, int64_t pixels, float eps) {
    const int64_t pixel = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= pixels) return;
    const int64_t start = blockIdx.y * (int64_t)channels * pixels + pixel;
    float squares = 0.0f;
    for (int c = 0; c < channels; ++c) squares += x[start + c * pixels] * x[start + c * pixels];
    const float scale = rsqrtf(squares / channels + eps);
    for (int c = 0; c < channels; ++c) y[start + c * pixels] = x[start + c * pixels] * scale;
}

torch::Tensor rms_norm(torch::Tensor x, double eps) {
    auto y = torch::empty_like(x);
    const int64_t images = x.size(0), channels = x.size(1), pixels = x.numel() / (images * channels);
    const dim3 blocks((pixels + 255) / 256, images);
    auto stream = c10::cuda::getCurrentCUDAStream();
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    if (channels <= HELD) {
        held_kernel<<<blocks, 256, 0, stream>>>(in, out, channels, pixels, (float)eps);
    } else {
        twice_kernel<<<blocks, 256, 0, stream>>>(in, out, channels, pixels, (float)eps);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

CPP_SOURCE = "torch::Tensor rms_norm(torch::Tensor x, double eps);"

extension = load_inline(
    name="own_rms_norm_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["rms_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.rms_norm(x.contiguous(), self.eps)
