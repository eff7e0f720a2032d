import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void affine_relu_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                   const float* __restrict__ shift, float* __restrict__ y,
                                   int64_t total, int64_t columns) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < total) {
        int64_t column = i % columns;
        y[i] = fmaxf(x[i] * scale[column] + shift[column], 0.0f);
    }
}

torch::Tensor affine_relu(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
    auto y = torch::empty_like(x);
    int64_t total = x.numel();
    int threads = 256;
    int64_t blocks = (total + threads - 1) / threads;
    affine_relu_kernel<<<blocks, threads>>>(x.data_ptr<float>(), scale.data_ptr<float>(),
                                            shift.data_ptr<float>(), y.data_ptr<float>(),
                                            total, x.size(-1));
    return y;
}
"""

CPP_SOURCE = "torch::Tensor affine_relu(torch::Tensor x, torch::Tensor scale, torch::Tensor shift);"

extension = load_inline(
    name="affine_relu",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["affine_relu"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return extension.affine_relu(x.contiguous(), self.scale, self.shift)
