"""A tile of a plane with its halo in shared memory, read once for all taps."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
constexpr int TX = 32;
constexpr int TY = 8;

__global__ void depthwise_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int channels,
    int H, int W, int OH, int OW, int kernel, int stride, int padding) {
    extern __shared__ float tile[];
    const int width = (TX - 1) * stride + kernel, height = (TY - 1) * stride + kernel;
    const int64_t plane = blockIdx.z;
    const int top = blockIdx.y * TY * stride - padding, left = blockIdx.x * TX * stride - padding;
    x += plane * H * W;
    for (int i = threadIdx.y * TX + threadIdx.x; i < width * height; i += TX * TY) {
        const int h = top + i / width, w = left + i % width;
        tile[i] = h >= 0 && h < H && w >= 0 && w < W ? x[h * W + w] : 0.0f;
    }
    __syncthreads();
    const int oh = blockIdx.y * TY + threadIdx.y, ow = blockIdx.x * TX + threadIdx.x;
    if (oh >= OH || ow >= OW) return;
    weight += plane % channels * kernel * kernel;
    const float* corner = tile + threadIdx.y * stride * width + threadIdx.x * stride;
    float total = 0.0f;
    for (int kh = 0; kh < kernel; ++kh)
        for (int kw = 0; kw < kernel; ++kw) total += corner[kh * width + kw] * weight[kh * kernel + kw];
    y[plane * OH * OW + oh * OW + ow] = total;
}

torch::Tensor depthwise(torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding) {
    const int n = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), kernel = weight.size(2);
    const int OH = (H + 2 * padding - kernel) / stride + 1, OW = (W + 2 * padding - kernel) / stride + 1;
    TORCH_CHECK(n * C < 65536, "at most 65535 planes");
    auto y = torch::empty({n, C, OH, OW}, x.options());
    const size_t bytes = ((TX - 1) * stride + kernel) * ((TY - 1) * stride + kernel) * sizeof(float);
    const dim3 blocks((OW + TX - 1) / TX, (OH + TY - 1) / TY, n * C);
    depthwise_kernel<<<blocks, dim3(TX, TY), bytes>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), C, H, W, OH, OW, kernel,
        stride, padding);
    return y;
}
"""

CPP_SOURCE = """
torch::Tensor depthwise(torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding);
"""

extension = load_inline(
    name="depthwise_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["depthwise"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, kernel_size: int, stride: int = 1, padding: int = 0, bias: bool = False):
        super().__init__()
        if bias:
            raise NotImplementedError("bias is not supported")
        self.conv2d = nn.Conv2d(
            in_channels, in_channels, kernel_size, stride=stride, padding=padding, groups=in_channels, bias=bias
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv2d
        return extension.depthwise(x.contiguous(), conv.weight, conv.stride[0], conv.padding[0])
