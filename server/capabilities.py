"""Root's privileges, given up for good: what stays root in name may then do no more than a user may.

Processes that still have them are then closed to one that has not, memory and environment included.
"""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path

from . import kernel

_VERSION_3 = 0x20080522
_DROP_FROM_BOUNDING_SET = 24
_AMBIENT, _CLEAR_ALL = 47, 4
_MOST = 64


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """Effective, permitted, inheritable; two of these, for 64 capabilities."""

    _fields_ = (("words", ctypes.c_uint32 * 6),)


def held() -> int:
    """The bits that this process may use or take on."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sets = [
        int(line.split()[1], 16) for line in lines if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb"))
    ]
    found = 0
    for bits in sets:
        found |= bits
    return found


def drop() -> None:
    """All of them, for this process and all that come from it. Raises `OSError`."""
    if not held():
        return
    for number in range(_MOST):
        try:
            kernel.prctl(_DROP_FROM_BOUNDING_SET, number)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):  # past the last one; no right to
                raise
    kernel.prctl(_AMBIENT, _CLEAR_ALL)
    header, none = _Header(_VERSION_3, 0), _Sets()
    kernel.capset(header, none)
