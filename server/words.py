"""Two words of host memory that judge, candidate and the device share: one opens the gate, one says done.

The judge reads and writes them with plain loads and stores, a candidate's device through its streams; so the judge
needs no work of its own on the device to start or to see the end of a candidate's (which would cost the other
context up to 0.3 ms of its time slice). Values only grow. A candidate can write both: `gate` says why that is no
use to it.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from . import driver
from .memory import sealed_pages

SIZE = mmap.PAGESIZE
GATE, DONE = 0, 64  # bytes from the start, on cache lines of their own


class Words:
    """One shared page. `register` makes it known to the device and sets the two addresses."""

    def __init__(self, fd: int, pages: mmap.mmap) -> None:
        self.fd = fd
        self._pages = pages
        self._view = memoryview(pages).cast("I")
        self.gate_address = 0
        self.done_address = 0

    @classmethod
    def create(cls) -> Words:
        return cls(*sealed_pages(SIZE))

    @classmethod
    def open(cls, fd: int) -> Words:
        return cls(fd, mmap.mmap(fd, SIZE))

    def register(self) -> None:
        address = driver.register(ctypes.addressof(ctypes.c_char.from_buffer(self._pages)), SIZE)
        self.gate_address, self.done_address = address + GATE, address + DONE

    def open_gate(self, value: int) -> None:
        self._view[GATE // 4] = value

    def done(self) -> int:
        return self._view[DONE // 4]

    def close(self) -> None:
        """The judge's side; a candidate's goes with its process."""
        self._view.release()
        self._pages.close()
        os.close(self.fd)
