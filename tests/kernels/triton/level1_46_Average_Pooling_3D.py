import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_pool(
    x_ptr, y_ptr, D, H, W, OD, OH, OW, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    volume = tl.program_id(2).to(tl.int64)
    od, oh = tl.program_id(1) // OH, tl.program_id(1) % OH
    ow = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for kd in tl.static_range(KERNEL):
        for kh in tl.static_range(KERNEL):
            d, h = od * STRIDE - PADDING + kd, oh * STRIDE - PADDING + kh
            # A row outside of the volume has no columns.
            limit = tl.where((d >= 0) & (d < D) & (h >= 0) & (h < H), W, 0)
            row = x_ptr + ((volume * D + d) * H + h) * W
            for kw in tl.static_range(KERNEL):
                w = ow * STRIDE - PADDING + kw
                total += tl.load(row + w, mask=(w >= 0) & (w < limit), other=0.0)
    offsets = ((volume * OD + od) * OH + oh) * OW + ow
    tl.store(y_ptr + offsets, total * (1.0 / (KERNEL * KERNEL * KERNEL)), mask=ow < OW)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0):
        super().__init__()
        self.avg_pool = nn.AvgPool3d(kernel_size=kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel, stride, padding = self.avg_pool.kernel_size, self.avg_pool.stride, self.avg_pool.padding
        n, c, D, H, W = x.shape
        OD, OH, OW = ((size + 2 * padding - kernel) // stride + 1 for size in (D, H, W))
        y = x.new_empty((n, c, OD, OH, OW))
        block = min(triton.next_power_of_2(OW), 256)
        average_pool[(triton.cdiv(OW, block), OD * OH, n * c)](
            x.contiguous(), y, D, H, W, OD, OH, OW,
            KERNEL=kernel, STRIDE=stride, PADDING=padding, BLOCK=block, num_warps=max(1, block // 64),
        )  # fmt: skip
        return y
