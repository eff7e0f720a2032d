"""Group norm: a group is one contiguous run of memory, cut in parts whose sums the second kernel combines."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

PARTS = 16


@triton.jit
def group_sums(x_ptr, part_ptr, size, per_part, BLOCK: tl.constexpr):
    part, group = tl.program_id(0), tl.program_id(1)
    x_ptr += group.to(tl.int64) * size
    pivot = tl.load(x_ptr)
    first = part * per_part
    last = tl.minimum(first + per_part, size)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.where(i < last, tl.load(x_ptr + i, mask=i < last, other=0.0) - pivot, 0.0)
        total += x
        squares += x * x
    slot = part_ptr + 2 * (group * tl.num_programs(0) + part)
    tl.store(slot, tl.sum(total, axis=0))
    tl.store(slot + 1, tl.sum(squares, axis=0))


@triton.jit
def normalize(
    x_ptr, part_ptr, weight_ptr, bias_ptr, y_ptr, channels, per_group, pixels, eps,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(1)
    channel = plane % channels
    group = plane // per_group
    size = per_group.to(tl.int64) * pixels
    slot = part_ptr + 2 * (group * PARTS + tl.arange(0, PARTS))
    offset = tl.sum(tl.load(slot), axis=0) / size
    variance = tl.sum(tl.load(slot + 1), axis=0) / size - offset * offset
    mean = tl.load(x_ptr + group * size) + offset
    scale = tl.load(weight_ptr + channel) * tl.rsqrt(variance + eps)
    shift = tl.load(bias_ptr + channel) - mean * scale
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = plane.to(tl.int64) * pixels + i
    x = tl.load(x_ptr + offsets, mask=i < pixels)
    tl.store(y_ptr + offsets, x * scale + shift, mask=i < pixels)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, num_groups: int):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gn = self.gn
        x = x.contiguous()
        y = torch.empty_like(x)
        images, channels = x.shape[:2]
        pixels = x.numel() // (images * channels)
        per_group = channels // gn.num_groups
        size = per_group * pixels
        parts = torch.empty((images * gn.num_groups, PARTS, 2), dtype=torch.float32, device=x.device)
        group_sums[(PARTS, images * gn.num_groups)](
            x, parts, size, triton.cdiv(size, PARTS), BLOCK=2048, num_warps=8
        )
        grid = (triton.cdiv(pixels, 4096), images * channels)
        normalize[grid](
            x, parts, gn.weight, gn.bias, y, channels, per_group, pixels, gn.eps,
            PARTS=PARTS, BLOCK=4096, num_warps=8,
        )  # fmt: skip
        return y
