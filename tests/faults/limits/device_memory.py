"""Device memory until there is no more.

device: cuda
stage: correctness
kind: out_of_memory
"""

import torch


def trial():
    held = []
    while True:
        held.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
