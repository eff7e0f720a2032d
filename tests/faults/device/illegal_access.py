"""A kernel that writes to where nothing is.

device: cuda
stage: correctness
kind: crashed, raised
"""

import torch
import triton
import triton.language as tl


@triton.jit
def wild(x):
    tl.store(x + (1 << 44), 1.0)


def trial():
    wild[(1,)](torch.zeros(1, device="cuda"))
    torch.cuda.synchronize()
