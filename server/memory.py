"""Memory that judge and candidate share: host pages (memfd) or device memory (CUDA IPC).

The judge creates a region and hands out its handle; the candidate opens it. A region is plain bytes:
shapes and dtypes come from the judge's layouts. Invariants: host regions are sealed against resizing, so
that a candidate can't make the judge fault; device regions fill whole 2 MiB granules, so that a handle never
exposes a neighbour. Imports torch; used by judge and candidate only.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass
from typing import Any

import torch

from . import driver

ALIGNMENT = 256
_GRANULE = 2 << 20
_SEALS = 0x0001 | 0x0002 | 0x0004  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW (linux/fcntl.h)
_F_ADD_SEALS = 1033


class MemoryFault(RuntimeError):
    """Shared memory could not be made or opened; `exhausted` tells a lack of memory from other faults."""

    def __init__(self, message: str, exhausted: bool = False) -> None:
        super().__init__(message)
        self.exhausted = exhausted


@dataclass
class Region:
    """Shared bytes. `data` is a flat uint8 tensor over them; `handle` and `fds` are what a peer needs."""

    data: torch.Tensor
    handle: dict[str, Any]
    fds: tuple[int, ...]
    pointer: int = 0

    def typed(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A flat view of `count` elements of `dtype` at a byte `offset`."""
        return self.data[offset : offset + count * dtype.itemsize].view(dtype)

    def close(self) -> None:
        """Give the memory back; views of it must be gone."""
        self.data = torch.empty(0, dtype=torch.uint8)
        for fd in self.fds:
            os.close(fd)
        self.fds = ()
        if self.pointer:
            driver.free(self.pointer)
            self.pointer = 0


def create(size: int, device: torch.device) -> Region:
    """A new region of at least `size` bytes on `device`; raises `MemoryFault`."""
    size = max(size, ALIGNMENT)
    return _create_device(size, device) if device.type == "cuda" else _create_host(size)


def open_region(handle: dict[str, Any], fds: list[int], device: torch.device) -> Region:
    """The candidate's side: map what the judge created."""
    size = int(handle["size"])
    if device.type == "cuda":
        try:
            pointer = driver.import_(bytes.fromhex(handle["ipc"]))
        except driver.DriverError as error:
            raise MemoryFault(str(error)) from error
        return Region(_wrap(pointer, size, device), handle, ())
    fd = fds.pop(0)
    pages = mmap.mmap(fd, size)
    os.close(fd)
    return Region(torch.frombuffer(pages, dtype=torch.uint8), handle, ())


def sealed_pages(size: int) -> tuple[int, mmap.mmap]:
    """Host memory to share: its descriptor, and the pages mapped here."""
    fd = os.memfd_create("kernel_env", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
        return fd, mmap.mmap(fd, size)
    except OSError as error:
        os.close(fd)
        raise MemoryFault(f"host memory for {size} bytes: {error.strerror}", exhausted=True) from error


def _create_host(size: int) -> Region:
    fd, pages = sealed_pages(size)
    return Region(torch.frombuffer(pages, dtype=torch.uint8), {"size": size}, (fd,))


def _create_device(size: int, device: torch.device) -> Region:
    size = -(-size // _GRANULE) * _GRANULE
    torch.cuda.synchronize(device)
    try:
        pointer = _allocate(size)
        handle = {"size": size, "ipc": driver.export(pointer).hex()}
    except driver.DriverError as error:
        raise MemoryFault(str(error), exhausted=error.code == driver.OUT_OF_MEMORY) from error
    return Region(_wrap(pointer, size, device), handle, (), pointer)


def _allocate(size: int) -> int:
    try:
        return driver.allocate(size)
    except driver.DriverError as error:
        if error.code != driver.OUT_OF_MEMORY:
            raise
    torch.cuda.empty_cache()
    return driver.allocate(size)


class _Pointer:
    """Device memory as numba's `__cuda_array_interface__` (version 3), which torch adopts without a copy."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def _wrap(pointer: int, size: int, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(_Pointer(pointer, size), device=device)
