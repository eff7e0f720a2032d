"""A right ReLU in CUDA, four elements a thread."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void relu_kernel(const float4* x, float4* y, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = x[i];
    v.x = fmaxf(v.x, 0.f); v.y = fmaxf(v.y, 0.f); v.z = fmaxf(v.z, 0.f); v.w = fmaxf(v.w, 0.f);
    y[i] = v;
  }
}
torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  long n = x.numel() / 4;
  relu_kernel<<<(n + 255) / 256, 256>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), n);
  return y;
}
"""
module = load_inline(
    name="relu_ext", cpp_sources=["torch::Tensor relu(torch::Tensor x);"], cuda_sources=[CUDA], functions=["relu"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.relu(x)
