from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int TILE = 16;

__global__ void linear_gelu_kernel(const float* __restrict__ x, const float* __restrict__ w,
                                   const float* __restrict__ b, float* __restrict__ y, int M, int N, int K) {
    __shared__ float xs[TILE][TILE], ws[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    int loaded = blockIdx.x * TILE + threadIdx.y;
    float total = 0.0f;
    for (int start = 0; start < K; start += TILE) {
        int k = start + threadIdx.x;
        xs[threadIdx.y][threadIdx.x] = row < M && k < K ? x[(int64_t)row * K + k] : 0.0f;
        ws[threadIdx.y][threadIdx.x] = loaded < N && k < K ? w[(int64_t)loaded * K + k] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) total += xs[threadIdx.y][i] * ws[threadIdx.x][i];
        __syncthreads();
    }
    if (row < M && column < N) {
        float z = total + b[column];
        y[(int64_t)row * N + column] = 0.5f * z * (1.0f + erff(z * 0.70710678f));
    }
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int64_t M = x.size(0), K = x.size(1), N = w.size(0);
    auto y = torch::empty({M, N}, x.options());
    dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    linear_gelu_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                        y.data_ptr<float>(), M, N, K);
    return y;
}
"""

extension = load_inline(
    name="linear_gelu",
    cpp_sources="torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=CUDA_SOURCE,
    functions=["linear_gelu"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)  # for its weights; it is not called

    def forward(self, x):
        return extension.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias)
