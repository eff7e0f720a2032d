"""Contexts of a device, and how quickly small kernels follow each other in one.

That is a matter of luck, drawn when a context is made, and the same for its life. On an H200 there are two kinds,
about as frequent: in one of them a network of many small kernels takes 2 to 4 % longer. How soon an empty kernel
follows another says little about it; what kernels take that write and read does (3.86 to 4.00 us for the two
below, or 4.20 to 4.29). So what is to be compared on such networks needs two contexts of a kind. Only for a
process that runs no code but ours so far; a new context can be had before PyTorch starts CUDA there. Where the
driver doesn't do as expected, all is left to luck.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from .driver import DriverError, call

SURVEYED = 12
DRAWS = 8
"""Each kind is had in half the draws, more or less."""
STEP = 1.025
"""Contexts are of two kinds if the widest step from one to the next slower is as wide as this."""
KERNELS, PASSES = 300, 3
GRIDS = {"write": 132, "change": 1056}
THREADS = 256
HOLD_CYCLES = 6_000_000  # 3 ms: longer than it takes to queue the kernels
_WORD = b"""    .reg .u64 at, offset;
    .reg .u32 thread, block, threads, index, value;
    ld.param.u64 at, [memory];
    mov.u32 thread, %tid.x;
    mov.u32 block, %ctaid.x;
    mov.u32 threads, %ntid.x;
    mad.lo.u32 index, block, threads, thread;
    mul.wide.u32 offset, index, 4;
    add.u64 at, at, offset;
"""
"""A kernel's beginning: `at` is the word of its thread."""
PTX = (
    b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write(.param .u64 memory) {
"""
    + _WORD
    + b"""    st.global.u32 [at], index;
    ret;
}
.visible .entry change(.param .u64 memory) {
"""
    + _WORD
    + b"""    ld.global.u32 value, [at];
    add.u32 value, value, 1;
    st.global.u32 [at], value;
    ret;
}
.visible .entry hold(.param .u64 cycles) {
    .reg .pred on;
    .reg .u64 start, now, end;
    ld.param.u64 end, [cycles];
    mov.u64 start, %clock64;
again:
    mov.u64 now, %clock64;
    sub.u64 now, now, start;
    setp.lt.u64 on, now, end;
    @on bra again;
    ret;
}
"""
)
_UNABLE = (DriverError, OSError, AttributeError)


def limit() -> float:
    """The pace (us) up to which a context is one of the quick; 0.0 where there are no two kinds, or none was told.

    Leaves no context behind.
    """
    paces = []
    try:
        context = Context()
        for _ in range(SURVEYED):
            paces.append(_pace())
            context.renew()
        context.close()
    except _UNABLE:
        return 0.0
    return between(paces)


def between(paces: Sequence[float]) -> float:
    """The middle of the widest step between them, if that is wide enough for two kinds; else 0.0."""
    ordered = sorted(paces)
    lower, higher = max(pairwise(ordered), key=lambda step: step[1] / step[0])
    return (lower + higher) / 2 if higher >= STEP * lower else 0.0


def pace() -> float:
    """What two small kernels take (us), each among its like, in the current context; 0.0 where none can tell."""
    try:
        return _pace()
    except _UNABLE:
        return 0.0


class Context:
    """The primary context of the first device that this process sees: what PyTorch will take, if it lasts.

    Raises `DriverError`, `OSError` and `AttributeError`, but for `draw`.
    """

    def __init__(self) -> None:
        self._device = ctypes.c_int()
        call("cuInit", ctypes.c_uint(0))
        call("cuDeviceGet", ctypes.byref(self._device), 0)
        self._make()

    def _make(self) -> None:
        made = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(made), self._device)
        call("cuCtxSetCurrent", made)

    def renew(self) -> None:
        self.close()
        self._make()

    def close(self) -> None:
        call("cuCtxSetCurrent", None)
        call("cuDevicePrimaryCtxRelease_v2", self._device)

    def draw(self, limit_us: float, quick: bool) -> float:
        """Anew until the pace is within the limit, or beyond it if not `quick`, or for some times; the pace (us).

        0.0 where the driver fails.
        """
        found = pace()
        for _ in range(DRAWS):
            if not found or (found <= limit_us) == quick:
                break
            try:
                self.renew()
            except _UNABLE:
                return 0.0
            found = pace()
        return found


def _pace() -> float:
    with _memory() as memory, _kernels() as kernels, _events() as (first, last):

        def passed(name: str) -> float:
            _launch(kernels["hold"], HOLD_CYCLES)
            call("cuEventRecord", first, None)
            for _ in range(KERNELS):
                _launch(kernels[name], memory, GRIDS[name], THREADS)
            call("cuEventRecord", last, None)
            call("cuCtxSynchronize")
            ms = ctypes.c_float()
            call("cuEventElapsedTime", ctypes.byref(ms), first, last)
            return 1e3 * ms.value / KERNELS

        return sum(min(passed(name) for _ in range(PASSES)) for name in GRIDS)


@contextmanager
def _memory() -> Iterator[int]:
    """For a word of each thread."""
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * THREADS * max(GRIDS.values())))
    try:
        yield address.value
    finally:
        call("cuMemFree_v2", address)


@contextmanager
def _kernels() -> Iterator[dict[str, ctypes.c_void_p]]:
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    try:
        found = {name: ctypes.c_void_p() for name in ("hold", *GRIDS)}
        for name, function in found.items():
            call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        yield found
    finally:
        call("cuModuleUnload", module)


@contextmanager
def _events() -> Iterator[list[ctypes.c_void_p]]:
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    for event in events:
        call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
    try:
        yield events
    finally:
        for event in events:
            call("cuEventDestroy_v2", event)


def _launch(kernel: ctypes.c_void_p, argument: int, blocks: int = 1, threads: int = 1) -> None:
    value = ctypes.c_uint64(argument)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)
