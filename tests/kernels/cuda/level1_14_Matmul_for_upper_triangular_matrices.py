"""Upper triangular times upper triangular in fp32: tiles above the diagonal only, each from its first row to its
last column, so that half of the inputs is never read. Tiles below are written as zeros.
"""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int TILE = 128;
constexpr int DEPTH = 8;
constexpr int THREADS = 256;
constexpr int EDGE = 8;  // a thread computes EDGE x EDGE values


__global__ void __launch_bounds__(THREADS) upper_kernel(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int N) {
    __shared__ float as[DEPTH][TILE + 4];
    __shared__ float bs[DEPTH][TILE];
    const int row0 = blockIdx.y * TILE, column0 = (gridDim.x - 1 - blockIdx.x) * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int last = min(column0 + TILE, N);
    float acc[EDGE][EDGE] = {};
    for (int k0 = row0; k0 < last; k0 += DEPTH) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            const int row = row0 + i / DEPTH, ka = k0 + i % DEPTH;
            as[i % DEPTH][i / DEPTH] = row < N && ka < last ? a[(int64_t)row * N + ka] : 0.0f;
            const int kb = k0 + i / TILE, column = column0 + i % TILE;
            bs[i / TILE][i % TILE] = kb < last && column < N ? b[(int64_t)kb * N + column] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float left[EDGE], right[EDGE];
#pragma unroll
            for (int i = 0; i < EDGE; ++i) {
                left[i] = as[k][ty * EDGE + i];
                right[i] = bs[k][tx + 16 * i];
            }
#pragma unroll
            for (int i = 0; i < EDGE; ++i)
#pragma unroll
                for (int j = 0; j < EDGE; ++j) acc[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EDGE; ++i) {
        const int row = row0 + ty * EDGE + i;
#pragma unroll
        for (int j = 0; j < EDGE; ++j) {
            const int column = column0 + tx + 16 * j;
            if (row < N && column < N) c[(int64_t)row * N + column] = row <= column ? acc[i][j] : 0.0f;
        }
    }
}

torch::Tensor upper_matmul(torch::Tensor a, torch::Tensor b) {
    const int N = a.size(0);
    auto c = torch::empty({N, N}, a.options());
    const int tiles = (N + TILE - 1) / TILE;
    upper_kernel<<<dim3(tiles, tiles), THREADS>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), N);
    return c;
}
"""

CPP_SOURCE = "torch::Tensor upper_matmul(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="upper_matmul_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["upper_matmul"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, A, B):
        return extension.upper_matmul(A.contiguous(), B.contiguous())
