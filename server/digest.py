"""A digest of bytes on the device, at the speed of its memory, that nobody can steer who does not know the key.

Sums of 64-bit words alone could be kept by whoever writes other words later and balances them. So each row of
words is summed twice, whole and over a secret window of its columns, and the rows' sums are weighted by secret
numbers. It tells whether bytes have changed between two moments; it is no cryptographic hash.
"""

from __future__ import annotations

import secrets

import torch

ROW = 1024
LEAST = 128


class Digest:
    """One key, for the digests that are to be compared with each other."""

    def __init__(self) -> None:
        self._start = secrets.randbelow(ROW - LEAST)
        self._end = self._start + LEAST + secrets.randbelow(ROW - LEAST - self._start + 1)
        self._generator = torch.Generator().manual_seed(secrets.randbits(62))
        self._weights = torch.empty(0, dtype=torch.int64)

    def of(self, data: torch.Tensor) -> torch.Tensor:
        """`data`: flat bytes that begin at a multiple of 8; the result is a 64-bit number without dimensions."""
        count = data.numel() // 8
        words, rest = data[: 8 * count].view(torch.int64), data[8 * count :].to(torch.int64)
        rows = words[: count // ROW * ROW].view(-1, ROW)
        whole, window = rows.sum(1), rows[:, self._start : self._end].sum(1)
        parts = torch.cat([whole, window, words[rows.numel() :], rest])
        return (parts * self._weights_for(parts)).sum()

    def _weights_for(self, parts: torch.Tensor) -> torch.Tensor:
        """Odd numbers, always the same from the first on."""
        missing = parts.numel() - self._weights.numel()
        if missing > 0:
            low, high = -(1 << 62), 1 << 62
            drawn = torch.randint(low, high, (missing,), generator=self._generator, dtype=torch.int64)
            self._weights = torch.cat([self._weights.to(parts.device), (drawn * 2 + 1).to(parts.device)])
        return self._weights[: parts.numel()]
