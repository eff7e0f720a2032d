"""Landlock: what a candidate may read, write and reach, by the kernel and whatever its user.

Paths that are not named are closed, with all that lies below; TCP, signals and abstract sockets out of the
candidate's own processes are refused as far as the kernel's interface goes (its version is its ABI: files from 1,
TCP from 4, devices from 5, signals and sockets from 6). Being confined also bars a process from the memory and
the environment of all that are not. Looking at names and sizes (`stat`) is not covered; neither is UDP.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from functools import cache

from . import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH_PATH = 1
_QUIET = 1  # from ABI 7: what is refused is not written to the host's audit log

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # by ABI
_ALL_FILE_RIGHTS = (1 << 16) - 1
_TCP = 3  # bind, connect
_SCOPES = 3  # abstract sockets, signals

FILES_ABI, TCP_ABI, SCOPES_ABI, QUIET_ABI = 1, 4, 6, 7


class _Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`; kernels take a longer one whose end is zero."""

    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    """`struct landlock_path_beneath_attr`."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def abi() -> int:
    """The version of the kernel's interface; 0 where there is none."""
    try:
        return kernel.call("landlock", _CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(read: Iterable[str], write: Iterable[str], files: bool = True) -> None:
    """Confine this process and all that come from it; needs no_new_privs. Raises `OSError`.

    `read` paths may be read and run, `write` paths used in every way but for making devices; what does not exist
    is left out. Without `files` only TCP, signals and abstract sockets are refused.
    """
    rights = _FILE_RIGHTS.get(abi(), _ALL_FILE_RIGHTS) if files else 0
    tcp, scopes = _TCP if abi() >= TCP_ABI else 0, _SCOPES if abi() >= SCOPES_ABI else 0
    rules = _Ruleset(rights, tcp, scopes)
    ruleset = kernel.call("landlock rules", _CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if files:
        for paths, wanted in ((read, _READ), (write, _ALL_FILE_RIGHTS & ~_MAKE_DEVICES)):
            for path in paths:
                _allow(ruleset, path, wanted & rights)
    kernel.call("landlock", _RESTRICT, ruleset, _QUIET if abi() >= QUIET_ABI else 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not there, or not for this user anyway
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _OF_FILES
        rule = _PathRule(rights, parent)
        kernel.call(f"landlock rule for {path}", _ADD, ruleset, _BENEATH_PATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
