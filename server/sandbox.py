"""What a candidate's process gives up before it reads the submission.

Order matters: new session, descriptors, limits, environment, then the death signal and no_new_privs. The
parent-death signal is a courtesy (a candidate can clear it); the worker's kill by process group and the
zygote's adoption of strays are the authority. Address space is not limited: CUDA reserves terabytes of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import tempfile
from collections.abc import Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

FILE_BYTES = 2 << 30
OPEN_FILES = 4096

KEPT_ENVIRONMENT = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CC",
    "CXX",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "TZ",
]

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def die_with_parent(parent: int) -> None:
    """Ask for SIGKILL when the parent ends; exits at once if it is already gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """An environment rebuilt from an allow-list: no tokens, no settings of the server."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return {**kept, **extra}


def confine(scratch: str, keep_fds: Iterable[int], parent: int) -> None:
    """Run in the forked child, before any line of the submission is read."""
    os.setsid()
    _close_other_descriptors(keep_fds)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    os.environ.update(
        HOME=scratch,
        USER="candidate",
        TMPDIR=scratch,
        TRITON_CACHE_DIR=f"{scratch}/triton",
        TORCH_EXTENSIONS_DIR=f"{scratch}/extensions",
        XDG_CACHE_HOME=scratch,
    )
    tempfile.tempdir = scratch
    os.chdir(scratch)
    os.umask(0o077)
    die_with_parent(parent)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _close_other_descriptors(keep: Iterable[int]) -> None:
    kept = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in kept:
            try:
                os.close(fd)
            except OSError:
                continue  # the listing's own descriptor, closed by now
