"""Device memory that is kept, so that next to nothing is left for anybody else.

device: cuda
kind: out_of_memory
says: held
"""

import torch

held = []


def trial():
    if not held:
        free, _ = torch.cuda.mem_get_info()
        held.append(torch.empty(free - (200 << 20), dtype=torch.uint8, device="cuda"))
