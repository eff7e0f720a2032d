"""The few calls of the CUDA driver that torch does not expose, by ctypes, on the context torch made current.

Device memory that other processes may open, streams that wait for and write words of memory, and events over a
whole context. Every call that fails raises `DriverError`. Imports torch; used by judge and candidate only.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch

OUT_OF_MEMORY = 2
_REACHED = 0  # CU_STREAM_WAIT_VALUE_GEQ: (int32)(word - value) >= 0
_DEVICE_MAP = 2  # CU_MEMHOSTREGISTER_DEVICEMAP
_LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is


class DriverError(RuntimeError):
    """A call of the driver failed with `code` (cuda.h, CUresult)."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: CUDA driver error {code}")
        self.code = code


class IpcHandle(ctypes.Structure):
    """`CUipcMemHandle`: passed by value where a handle is opened."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


def lacked_memory(error: torch.AcceleratorError) -> bool:
    """Code that is loaded when it is first needed may lack memory too; the context is as good as before."""
    return getattr(error, "error_code", 0) == OUT_OF_MEMORY


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        raise DriverError(what, code)


def call(name: str, *arguments: object) -> None:
    """Any other of its functions; raises `DriverError`, and `AttributeError` where there is none of that name."""
    _check(getattr(_library(), name)(*arguments), name)


def allocate(size: int) -> int:
    """Device memory outside torch's allocator; its address."""
    pointer = ctypes.c_uint64()
    _check(
        _library().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), f"{size} bytes of device memory"
    )
    return pointer.value


def free(address: int) -> None:
    _check(_library().cuMemFree_v2(ctypes.c_uint64(address)), "cuMemFree")


def export(address: int) -> bytes:
    """A handle with which another process can open the allocation at `address`."""
    handle = IpcHandle()
    _check(_library().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(address)), "cuIpcGetMemHandle")
    return bytes(handle)


def import_(handle: bytes) -> int:
    """The address of another process's allocation in this one."""
    pointer = ctypes.c_uint64()
    opened = IpcHandle.from_buffer_copy(handle)
    flags = ctypes.c_uint(_LAZY_PEER_ACCESS)
    _check(_library().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), opened, flags), "cuIpcOpenMemHandle")
    return pointer.value


def register(address: int, size: int) -> int:
    """Let the device reach host memory; its address there."""
    host, device = ctypes.c_void_p(address), ctypes.c_uint64()
    _check(
        _library().cuMemHostRegister_v2(host, ctypes.c_size_t(size), ctypes.c_uint(_DEVICE_MAP)),
        "cuMemHostRegister",
    )
    _check(
        _library().cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, ctypes.c_uint(0)),
        "cuMemHostGetDevicePointer",
    )
    return device.value


def wait_for(stream: torch.cuda.Stream, address: int, value: int) -> None:
    """Work queued on `stream` after this waits until the 32-bit word at `address` reaches `value`."""
    code = _library().cuStreamWaitValue32_v2(*_operands(stream, address, value), ctypes.c_uint(_REACHED))
    _check(code, "cuStreamWaitValue32")


def write(stream: torch.cuda.Stream, address: int, value: int) -> None:
    """Set the word at `address` to `value` once everything queued on `stream` before is done."""
    code = _library().cuStreamWriteValue32_v2(*_operands(stream, address, value), ctypes.c_uint(0))
    _check(code, "cuStreamWriteValue32")


def _operands(stream: torch.cuda.Stream, address: int, value: int) -> tuple[object, ...]:
    return ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(address), ctypes.c_uint32(value)


def join(event: torch.cuda.Event, device: torch.device) -> None:
    """Let the current stream wait for all work of the context, side streams included, through `event`.

    The event must have been recorded before. A driver older than CUDA 12.5 can't; there the stream waits for
    nothing. The context's event alone is no end of a timing: it can come before the last kernel of a stream
    that was idle, so that one is to be recorded on the stream behind this.
    """
    call = getattr(_library(), "cuCtxRecordEvent", None)
    if call is not None and not call(_context(device.index or 0), ctypes.c_void_p(event.cuda_event)):
        torch.cuda.current_stream(device).wait_event(event)


@cache
def _context(index: int) -> ctypes.c_void_p:
    """The context that is current on the calling thread: torch's primary one of device `index`."""
    context = ctypes.c_void_p()
    with torch.cuda.device(index):
        _check(_library().cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
    return context
