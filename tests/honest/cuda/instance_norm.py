import textwrap

import torch.nn as nn
from torch.utils.cpp_extension import load_inline as build

HEADER = "#include <torch/extension.h>\n#include <cuda_fp16.h>\n"


def source(threads: int) -> str:
    body = f"""
        template <int T> __global__ void norm(const float* x, const float* w, float* y, int n, int c, float eps) {{
            __shared__ float s[{threads}], q[{threads}];
            float a = 0.f, b = 0.f;
            const float* p = x + (size_t)blockIdx.x * n;
            for (int i = threadIdx.x; i < n; i += T) {{ a += p[i]; b += p[i] * p[i]; }}
            s[threadIdx.x] = a; q[threadIdx.x] = b; __syncthreads();
            for (int k = T / 2; k > 0; k >>= 1) {{
                if (threadIdx.x < k) {{
                    s[threadIdx.x] += s[threadIdx.x + k];
                    q[threadIdx.x] += q[threadIdx.x + k];
                }}
                __syncthreads();
            }}
            float mean = s[0] / n, var = q[0] / n - mean * mean;
            for (int i = threadIdx.x; i < n; i += T)
                y[(size_t)blockIdx.x * n + i] = (p[i] - mean) * rsqrtf(var + eps) * w[blockIdx.x % c];
        }}
        torch::Tensor instance_norm(torch::Tensor x, torch::Tensor w, double eps) {{
            auto y = torch::empty_like(x);
            int rows = x.size(0) * x.size(1);
            norm<{threads}><<<rows, {threads}>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(),
                (int)(x.numel() / rows), (int)x.size(1), (float)eps);
            return y;
        }}
    """
    return HEADER + textwrap.dedent(body)


_module = None


def module():
    global _module
    if _module is None:
        _module = build(
            name="instance_norm_ext",
            cpp_sources=["torch::Tensor instance_norm(torch::Tensor x, torch::Tensor w, double eps);"],
            cuda_sources=[source(256)],
            functions=["instance_norm"],
        )
    return _module


class ModelNew(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True, eps=eps)
        module()

    def forward(self, x):
        return module().instance_norm(x.contiguous(), self.norm.weight, self.norm.eps)
