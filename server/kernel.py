"""System calls that Python does not offer, by number or by prctl; a failure raises `OSError`."""

from __future__ import annotations

import ctypes
import os

NO_NEW_PRIVS = 38
GET_NO_NEW_PRIVS = 39
_PDEATHSIG = 1
_DUMPABLE = 4
_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def call(what: str, number: int, *arguments: object) -> int:
    """`syscall(number, ...)`; integers are passed as `long`."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _checked(what, int(_libc.syscall(ctypes.c_long(number), *words)))


def prctl(option: int, *arguments: int) -> int:
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(f"prctl({option})", int(_libc.prctl(option, *words)))


def function(name: str, *arguments: int) -> int:
    """A function of the C library that tells its failure by -1 and errno."""
    words = [ctypes.c_long(word) for word in arguments]
    return _checked(name, int(getattr(_libc, name)(*words)))


def capset(header: ctypes.Structure, sets: ctypes.Structure) -> None:
    _checked("capset", int(_libc.capset(ctypes.byref(header), ctypes.byref(sets))))


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def die_with_parent(parent: int, signal: int) -> None:
    """Ask for `signal` when the parent ends; exits at once if it is already gone."""
    prctl(_PDEATHSIG, signal)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    prctl(_CHILD_SUBREAPER, 1)


def close_to_others() -> None:
    """Keep other processes of the same user from reading or tracing this one; children inherit it until exec."""
    prctl(_DUMPABLE, 0)


def open_to_others() -> None:
    """Undo `close_to_others`."""
    prctl(_DUMPABLE, 1)
