"""Lanes along the columns, eight rows at a time; the eight sums of a column meet in shared memory."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int COLUMNS = 64;
constexpr int LANES = 8;

__global__ void sum_kernel(
    const float* __restrict__ x, float* __restrict__ y, int64_t rows, int64_t columns) {
    __shared__ float part[LANES][COLUMNS];
    const int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    x += blockIdx.y * rows * columns;
    float total = 0.0f;
    if (column < columns) {
#pragma unroll 4
        for (int64_t row = threadIdx.y; row < rows; row += LANES) total += x[row * columns + column];
    }
    part[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int i = 1; i < LANES; ++i) total += part[i][threadIdx.x];
        y[blockIdx.y * columns + column] = total;
    }
}

torch::Tensor sum_over(torch::Tensor x, int64_t outer, int64_t rows, int64_t columns) {
    auto y = torch::empty({outer, columns}, x.options());
    const dim3 blocks((columns + COLUMNS - 1) / COLUMNS, outer);
    sum_kernel<<<blocks, dim3(COLUMNS, LANES)>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
    return y;
}
"""

CPP_SOURCE = "torch::Tensor sum_over(torch::Tensor x, int64_t outer, int64_t rows, int64_t columns);"

extension = load_inline(
    name="sum_over_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["sum_over"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = list(x.shape)
        outer = 1
        for size in shape[: self.dim]:
            outer *= size
        rows = shape[self.dim]
        shape[self.dim] = 1
        y = extension.sum_over(x.contiguous(), outer, rows, x.numel() // (outer * rows))
        return y.view(shape)
