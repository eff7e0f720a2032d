import torch
import triton
from torch.nn import Module
from triton import cdiv, jit
from triton import language as tl


@jit
def partial_sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0))


@jit(do_not_specialize=["n"])
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0))


STAGES = {"partial": partial_sums, "total": total}


def run(stage, grid, *args, **meta):
    kernel = STAGES[stage]
    kernel[grid](*args, **meta)


class ModelNew(Module):
    def forward(self, x):
        n = x.numel()
        blocks = cdiv(n, 1024)
        partial = torch.empty(blocks, device=x.device, dtype=torch.float32)
        out = torch.zeros((), device=x.device, dtype=torch.float32)
        run("partial", (blocks,), x, partial, n, BLOCK=1024)
        run("total", (1,), partial, out, blocks, BLOCK=triton.next_power_of_2(blocks))
        return out
