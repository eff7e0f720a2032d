"""The filter of system calls that a candidate runs under: assembled here, for x86-64 and aarch64, loaded once.

It refuses with EPERM, never kills: libraries that only try a feature go on without it. Refused are sockets but
local ones, other processes' memory, new namespaces and mounts, the kernel's large interfaces (bpf, perf, io_uring,
keys, modules), and what would outlive its process (System V's shared memory and the like). `clone3` is "not
implemented", as a filter can't read its flags: the C library then uses `clone`. Calls of another instruction set
(32 bits) are refused as a whole. Signals and limits that name a protected process are refused, too: that is all
there is against them where candidates share our user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Collection, Sequence

from . import kernel

_CALLS = {  # x86-64, aarch64; None where there is no such call
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),  # what is made by this one and the next three outlives its process
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "setns": (308, 268),
    "unshare": (272, 97),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_NOT_IMPLEMENTED = {"clone3": (435, 435)}
_CLONE = (56, 220)
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_FCNTL, _SETOWN = (72, 25), (8, 15)  # F_SETOWN, F_SETOWN_EX: signals to whoever is named, through a descriptor
_IOCTL, _SETOWNS = (16, 29), (0x8901, 0x8902, 0x5412)  # FIOSETOWN, SIOCSPGRP, TIOCSTI
_NAMING_A_PROCESS = {  # call: (numbers, which argument is the process)
    "kill": ((62, 129), 0),
    "tkill": ((200, 130), 0),
    "tgkill": ((234, 131), 0),
    "rt_sigqueueinfo": ((129, 138), 0),
    "rt_tgsigqueueinfo": ((297, 240), 0),
    "prlimit64": ((302, 261), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0),
    "sched_setaffinity": ((203, 122), 0),
    "setpriority": ((141, 140), 1),
    "ioprio_set": ((251, 30), 1),
}

_OF_MANY = (2, 3)  # PRIO_USER, IOPRIO_WHO_PGRP; IOPRIO_WHO_USER: whole users and groups at once

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; arguments are 64 bits each
_ALLOW, _REFUSE, _ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

_SECCOMP = (317, 277)
_SET_FILTER = 1
_LEAVE_SPECULATION = 4  # older kernels would slow the process down otherwise, and with it what is measured

Instruction = tuple[int, int, int, int]


def supported() -> bool:
    return os.uname().machine in _MACHINES


def load(protected: Collection[int]) -> None:
    """Filter this process and all that come from it; needs no_new_privs. Raises `OSError`."""
    column, _ = _MACHINES[os.uname().machine]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program(os.uname().machine, protected))
    text = ctypes.create_string_buffer(code, len(code))
    filter_ = _Filter(len(code) // 8, ctypes.addressof(text))
    for flags in (_LEAVE_SPECULATION, 0):
        try:
            kernel.call("seccomp", _SECCOMP[column], _SET_FILTER, flags, ctypes.byref(filter_))
            return
        except OSError as error:
            if error.errno != errno.EINVAL or not flags:
                raise


class _Filter(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def program(machine: str, protected: Collection[int]) -> list[Instruction]:
    """`protected`: processes that candidates may neither signal nor limit; minus a group's number for a group."""
    column, architecture = _MACHINES[machine]
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for refused, verdict in ((_CALLS, _REFUSE), (_NOT_IMPLEMENTED, _ABSENT)):
        for numbers in refused.values():
            if numbers[column] is not None:
                code += [(_EQUAL, 0, 1, numbers[column] or 0), (_RETURN, 0, 0, verdict)]
    for numbers in (_SOCKET, _SOCKETPAIR):
        code += _unless(numbers[column], 0, socket.AF_UNIX)
    code += _where(_CLONE[column], 0, [(_ANY_BIT, _NEW_NAMESPACES)])
    code += _where(_FCNTL[column], 1, [(_EQUAL, value) for value in _SETOWN])
    code += _where(_IOCTL[column], 1, [(_EQUAL, value) for value in _SETOWNS])
    for pair in (_NAMING_A_PROCESS["setpriority"][0], _NAMING_A_PROCESS["ioprio_set"][0]):
        code += _where(pair[column], 0, [(_EQUAL, kind) for kind in _OF_MANY])
    targets = [(_EQUAL, pid & 0xFFFFFFFF) for pid in protected]
    for pair, argument in _NAMING_A_PROCESS.values():
        code += _where(pair[column], argument, targets)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _where(number: int, argument: int, tests: Sequence[tuple[int, int]]) -> list[Instruction]:
    """Refuse a call whose argument passes any test; the kernel's own types make the low half the whole."""
    size = len(tests)
    checks = [(test, size - at, 0, value) for at, (test, value) in enumerate(tests)]
    return [
        (_EQUAL, 0, size + 4, number),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        *checks,
        (_JUMP, 0, 0, 1),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _unless(number: int, argument: int, value: int) -> list[Instruction]:
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
