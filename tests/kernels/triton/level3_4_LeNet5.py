"""LeNet-5 in five launches: convolution, ReLU and pooling in one kernel, and three small linear layers."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_relu_pool(x_ptr, w_ptr, b_ptr, y_ptr, C, H, W, OC, PH, PW, KERNEL: tl.constexpr, BLOCK: tl.constexpr):
    """Lanes are pooled outputs of one image; a lane's four convolution results share the patch they read."""
    image = tl.program_id(1).to(tl.int64)
    out = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = out < OC * PH * PW
    oc = out // (PH * PW)
    row, column = out // PW % PH * 2, out % PW * 2
    corner = x_ptr + image * C * H * W + row * W + column
    a = tl.zeros((BLOCK,), dtype=tl.float32)
    b, c, d = a, a, a
    for channel in range(C):
        for kh in tl.static_range(KERNEL):
            for kw in tl.static_range(KERNEL):
                weight = tl.load(w_ptr + ((oc * C + channel) * KERNEL + kh) * KERNEL + kw, mask=inside, other=0.0)
                at = corner + channel * H * W + kh * W + kw
                a += weight * tl.load(at, mask=inside, other=0.0)
                b += weight * tl.load(at + 1, mask=inside, other=0.0)
                c += weight * tl.load(at + W, mask=inside, other=0.0)
                d += weight * tl.load(at + W + 1, mask=inside, other=0.0)
    best = tl.maximum(tl.maximum(a, b), tl.maximum(c, d)) + tl.load(b_ptr + oc, mask=inside, other=0.0)
    tl.store(y_ptr + image * OC * PH * PW + out, tl.where(best < 0, 0.0, best), mask=inside)


@triton.jit
def linear(
    x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, RELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    if RELU:
        acc = tl.where(acc < 0, 0.0, acc)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels=1, out_channels=6, kernel_size=5, stride=1)
        self.conv2 = nn.Conv2d(in_channels=6, out_channels=16, kernel_size=5, stride=1)
        self.fc1 = nn.Linear(in_features=16 * 5 * 5, out_features=120)
        self.fc2 = nn.Linear(in_features=120, out_features=84)
        self.fc3 = nn.Linear(in_features=84, out_features=num_classes)

    def features(self, x, conv):
        n, C, H, W = x.shape
        OC, _, kernel, _ = conv.weight.shape
        PH, PW = (H - kernel + 1) // 2, (W - kernel + 1) // 2
        y = x.new_empty((n, OC, PH, PW))
        conv_relu_pool[(triton.cdiv(OC * PH * PW, 256), n)](
            x, conv.weight, conv.bias, y, C, H, W, OC, PH, PW, KERNEL=kernel, BLOCK=256
        )
        return y

    def classify(self, x, layer, relu):
        M, K = x.shape
        N = layer.out_features
        y = x.new_empty((M, N))
        linear[(triton.cdiv(M, 64), triton.cdiv(N, 32))](
            x, layer.weight, layer.bias, y, M, N, K, RELU=relu, BM=64, BN=32, BK=32, num_warps=4
        )
        return y

    def forward(self, x):
        x = self.features(x.contiguous(), self.conv1)
        x = self.features(x, self.conv2)
        x = x.view(-1, 16 * 5 * 5)
        x = self.classify(x, self.fc1, relu=True)
        x = self.classify(x, self.fc2, relu=True)
        return self.classify(x, self.fc3, relu=False)
