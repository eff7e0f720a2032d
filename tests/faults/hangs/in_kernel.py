"""A kernel without end: on a GPU it can't be interrupted, only its process ended.

stage: correctness
kind: timed_out
"""

import torch
import triton
import triton.language as tl


@triton.jit
def endless(x):
    value = tl.load(x)
    while value == value:
        value = tl.load(x, volatile=True)
    tl.store(x, value)


def trial():
    endless[(1,)](torch.zeros(1, device=device()))
    if device() == "cuda":
        torch.cuda.synchronize()
