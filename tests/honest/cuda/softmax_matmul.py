"""Two kernels whose bindings carry the names of PyTorch's functions."""

import functools
import os

import torch
import torch.nn as nn
from torch.utils import cpp_extension

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>

// Neither at::matmul nor cublasSgemm is called below; "at::softmax" is a string.
constexpr int TILE = 16;
constexpr long long BIG = 1'000'000;

template <typename scalar_t>
__global__ void matmul_kernel(const scalar_t* a, const scalar_t* b, scalar_t* c, int M, int N, int K) {
    __shared__ scalar_t as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    scalar_t acc = 0;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = (row < M && ka < K) ? a[row * K + ka] : scalar_t(0);
        bs[threadIdx.y][threadIdx.x] = (kb < K && col < N) ? b[kb * N + col] : scalar_t(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) c[row * N + col] = acc;
}

__global__ void softmax_kernel(const float* x, float* y, int n) {
    extern __shared__ float cache[];
    /* max, then sum, then divide:
       the same as at::softmax(x, 1) */
    const float* row = x + (size_t)blockIdx.x * n;
    float m = -INFINITY, s = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = max(m, row[i]);
    cache[threadIdx.x] = m; __syncthreads();
    for (int k = blockDim.x / 2; k; k >>= 1) {
        if (threadIdx.x < k) cache[threadIdx.x] = fmaxf(cache[threadIdx.x], cache[threadIdx.x + k]);
        __syncthreads();
    }
    m = cache[0]; __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf(row[i] - m);
    cache[threadIdx.x] = s; __syncthreads();
    for (int k = blockDim.x / 2; k; k >>= 1) {
        if (threadIdx.x < k) cache[threadIdx.x] += cache[threadIdx.x + k];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(size_t)blockIdx.x * n + i] = __expf(row[i] - m) / cache[0];
}

at::Tensor matmul(at::Tensor a, at::Tensor b) {
    const at::cuda::OptionalCUDAGuard guard(at::device_of(a));
    auto c = at::empty({a.size(0), b.size(1)}, a.options());
    dim3 block(TILE, TILE), grid((b.size(1) + TILE - 1) / TILE, (a.size(0) + TILE - 1) / TILE);
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "at::matmul", [&] {
        matmul_kernel<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
            a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), c.data_ptr<scalar_t>(),
            a.size(0), b.size(1), a.size(1));
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return c;
}

at::Tensor softmax(const at::Tensor& x) {
    auto y = torch::zeros_like(x);
    softmax_kernel<<<x.size(0), 256, 256 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""


@functools.cache
def extension():
    try:
        return cpp_extension.load_inline(
            "softmax_matmul",
            ["at::Tensor matmul(at::Tensor a, at::Tensor b); at::Tensor softmax(const at::Tensor& x);"],
            [SOURCE],
            functions=["matmul", "softmax"],
            extra_cuda_cflags=["-O3", "--use_fast_math"],
            extra_ldflags=["-lcudart"],
        )
    finally:
        os.environ.pop("TORCH_CUDA_ARCH_LIST", None)


def attend(ext, x, w):
    return ext.softmax(ext.matmul(x, w))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_features, out_features))
        self.ext = extension()

    def forward(self, x):
        scores = self.ext.matmul(x, self.weight)
        module = extension()
        return module.softmax(scores) if x.shape[0] > 1 else attend(module, x, self.weight)
