"""x / mean(|x|) by rows. A program keeps a quarter of its row in registers and reads the rest twice.

The second reading comes soon after the first and finds the L2 cache warm.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l1_norm(x_ptr, y_ptr, columns, HELD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, HELD)
    held = tl.load(x_ptr + row + i, mask=i < columns, other=0.0)
    sizes = tl.abs(held)
    for start in range(HELD, columns, HELD):
        sizes += tl.abs(tl.load(x_ptr + row + start + i, mask=start + i < columns, other=0.0))
    mean = tl.sum(sizes, axis=0) / columns
    tl.store(y_ptr + row + i, held / mean, mask=i < columns)
    for start in range(HELD, columns, HELD):
        x = tl.load(x_ptr + row + start + i, mask=start + i < columns)
        tl.store(y_ptr + row + start + i, x / mean, mask=start + i < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        held = min(triton.next_power_of_2(triton.cdiv(columns, 4)), 16384)
        l1_norm[(rows,)](x, y, columns, HELD=held, num_warps=max(1, min(16, held // 256)))
        return y
