import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def min_rows(x_ptr, y_ptr, rows, columns, stride_batch, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    batch = tl.program_id(1)
    inside = column < columns
    tile = tl.arange(0, ROWS)[:, None] * columns + column[None, :]
    pointers = x_ptr + batch.to(tl.int64) * stride_batch + tile
    least = tl.full((ROWS, COLUMNS), float("inf"), dtype=tl.float32)
    for left in range(rows, 0, -ROWS):
        mask = (tl.arange(0, ROWS)[:, None] < left) & inside[None, :]
        least = tl.minimum(least, tl.load(pointers, mask=mask, other=float("inf")))
        pointers += ROWS * columns
    tl.store(y_ptr + batch * columns + column, tl.min(least, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(self.dim, 1).contiguous() if self.dim not in (1, -2) else x.contiguous()
        batch, rows, columns = x.shape
        y = torch.empty((batch, columns), dtype=x.dtype, device=x.device)
        min_rows[(triton.cdiv(columns, 64), batch)](
            x, y, rows, columns, x.stride(0), ROWS=32, COLUMNS=64, num_warps=4
        )
        return y
