import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.load(a_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream() if torch.cuda.is_available() else None

    def _halves(self, a, b, c):
        n = a.numel() // 2
        return (a[:n], b[:n], c[:n]), (a[n:], b[n:], c[n:])

    def forward(self, a, b):
        c = torch.empty_like(a)
        first, second = self._halves(a.view(-1), b.view(-1), c.view(-1))
        if self.side is None:
            self._launch(*first)
            self._launch(*second)
            return c
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self._launch(*second)
        self._launch(*first)
        main.wait_stream(self.side)
        return c

    @staticmethod
    def _launch(a, b, c):
        add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, c, a.numel(), BLOCK=256)
