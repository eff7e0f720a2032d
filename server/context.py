"""Contexts of a device, and how quickly kernels follow each other in one.

The time from one kernel to the next is a matter of luck: it differs from context to context by a tenth (1.26 to
1.41 us on an H200), is the same for a context's life, and takes networks of many small kernels 2 to 5 % longer in
one process than in another. So what is to be compared on such needs two contexts of a kind. Only for a process
that runs no code but ours so far; a new context can be had before PyTorch starts CUDA there. Where the driver
doesn't do as expected, all is left to luck.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from .driver import DriverError, call

SURVEYED = 12
DRAWS = 8
"""Three of five are quick, so that one in fifty searches for a slow one ends without."""
WIDE = 1.04
"""Contexts differ if the slowest takes this much of the quickest."""
KERNELS, PASSES = 300, 3
HOLD_CYCLES = 4_000_000  # 2 ms: longer than it takes to queue the kernels
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 unused) { ret; }
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
_NAMES = (b"hold", b"nothing")
_UNABLE = (DriverError, OSError, AttributeError)


def limit() -> float:
    """The gap (us) up to which a context is one of the quick; 0.0 where they don't differ, or can't be told apart.

    Leaves no context behind.
    """
    gaps = []
    try:
        context = Context()
        for _ in range(SURVEYED):
            gaps.append(_gap())
            context.renew()
        context.close()
    except _UNABLE:
        return 0.0
    return (min(gaps) + max(gaps)) / 2 if max(gaps) > WIDE * min(gaps) else 0.0


def gap() -> float:
    """From one empty kernel to the next (us), in the current context; 0.0 where that can't be found out."""
    try:
        return _gap()
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
        """Anew until the gap is within the limit, or beyond it if not `quick`, or for some times; the gap (us).

        0.0 where the driver fails.
        """
        found = gap()
        for _ in range(DRAWS):
            if not found or (found <= limit_us) == quick:
                break
            try:
                self.renew()
            except _UNABLE:
                return 0.0
            found = gap()
        return found


def _gap() -> float:
    with _kernels() as (hold, nothing), _events() as (first, last):
        return min(_pass(hold, nothing, first, last) for _ in range(PASSES))


def _pass(hold: ctypes.c_void_p, nothing: ctypes.c_void_p, first: ctypes.c_void_p, last: ctypes.c_void_p) -> float:
    _launch(hold, HOLD_CYCLES)
    call("cuEventRecord", first, None)
    for _ in range(KERNELS):
        _launch(nothing, 0)
    call("cuEventRecord", last, None)
    call("cuCtxSynchronize")
    ms = ctypes.c_float()
    call("cuEventElapsedTime", ctypes.byref(ms), first, last)
    return 1e3 * ms.value / KERNELS


@contextmanager
def _kernels() -> Iterator[list[ctypes.c_void_p]]:
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    try:
        found = [ctypes.c_void_p() for _ in _NAMES]
        for function, name in zip(found, _NAMES, strict=True):
            call("cuModuleGetFunction", ctypes.byref(function), module, name)
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


def _launch(kernel: ctypes.c_void_p, argument: int) -> None:
    value = ctypes.c_uint64(argument)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
