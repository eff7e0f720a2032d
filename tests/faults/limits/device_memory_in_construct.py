"""Device memory that is kept from the constructor on, while the reference is being constructed as well.

device: cuda
kind: out_of_memory
"""

import torch

held = []


def construct():
    while True:
        free, _ = torch.cuda.mem_get_info()
        if free < 300 << 20:
            return
        held.append(torch.empty(free - (200 << 20), dtype=torch.uint8, device="cuda"))
