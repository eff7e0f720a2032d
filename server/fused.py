"""How many elements are off, in one pass over both tensors at the speed of the device's memory.

The rule is `compare`'s, which does in some twenty passes what this does in one, and which uses it only where it
counts alike. The kernel is compiled in memory by the CUDA runtime's compiler: no file of it can be replaced. Knows
nothing of which elements are off, nor of dtypes other than `TYPES`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

BLOCKS, THREADS = 2048, 256
AT_ONCE = 1 << 30
"""Elements in a launch, whose count is an `int`."""

_FLOAT = """
typedef float real;
__device__ real bound(real atol, real rtol, real x) { return __fadd_rn(atol, __fmul_rn(rtol, fabsf(x))); }
"""
_DOUBLE = """
typedef double real;
typedef double word;
__device__ real wide(word x) { return x; }
__device__ real bound(real atol, real rtol, real x) { return __dadd_rn(atol, __dmul_rn(rtol, fabs(x))); }
"""
_HALF = _FLOAT + "typedef unsigned short word;\n"
TYPES = {
    torch.float64: _DOUBLE,
    torch.float32: _FLOAT + "typedef float word;\n__device__ real wide(word x) { return x; }",
    torch.bfloat16: _HALF + "__device__ real wide(word x) { return __uint_as_float((unsigned int)x << 16); }",
    torch.float16: _HALF
    + """__device__ real wide(word x) { real y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }""",
}
_SOURCE = """
__device__ bool finite(real x) { return x - x == 0; }

extern "C" __global__ void count_off(
    const word* __restrict__ got, const word* __restrict__ right, const double* __restrict__ tolerance,
    unsigned long long* off, int count) {
  const real atol = (real)tolerance[0], rtol = (real)tolerance[1];
  unsigned int mine = 0;
#pragma unroll 4
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
       i += (long long)gridDim.x * blockDim.x) {
    const real a = wide(got[i]), b = wide(right[i]);
    const bool close = fabs(a - b) <= bound(atol, rtol, b);
    const bool same = a == b || (a != a && b != b);
    mine += finite(a) && finite(b) ? !close : !same;
  }
  if (mine) atomicAdd(off, (unsigned long long)mine);
}
"""

Count = Callable[[torch.Tensor, torch.Tensor, float, float], int]


def counter(dtype: torch.dtype) -> Count:
    """For flat tensors of a dtype in `TYPES`, on the current device; what can't be compiled raises.

    That is `AttributeError`, `ImportError`, `RuntimeError` or `OSError`, by version of PyTorch and by what is
    installed.
    """
    kernel = torch.cuda._compile_kernel(f"{TYPES[dtype]}\n{_SOURCE}", "count_off")

    def count(got: torch.Tensor, right: torch.Tensor, atol: float, rtol: float) -> int:
        tolerance = torch.tensor([atol, rtol], dtype=torch.float64, device=right.device)
        off = torch.zeros(1, dtype=torch.int64, device=right.device)
        for start in range(0, right.numel(), AT_ONCE):
            one, other = got[start : start + AT_ONCE], right[start : start + AT_ONCE]
            blocks = min(BLOCKS, -(-one.numel() // THREADS))
            kernel((blocks, 1, 1), (THREADS, 1, 1), [one, other, tolerance, off, one.numel()])
        return int(off)

    return count
