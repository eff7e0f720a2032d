"""What of this machine's files a candidate may read: the system, Python and the compilers, and nothing besides.

A tree that holds something closed (the server's own package with its tasks, task folders, logs) is replaced by
what else there is in it, so that closed paths stay closed wherever they lie. A tree that is named itself, as
the environment that a checkout of the server holds, is open though what it lies in is closed. Listed once for a
worker.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterable

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sys",
    "/nix/store",
    "/gnu/store",
)
ETC_FOLDERS = ("alternatives", "ld.so.conf.d", "nvidia", "OpenCL", "vulkan", "python3")
VARIABLES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)
OWN_PROCESS = "/proc/self"  # the driver names its threads there, and does not start where it can't (code 304)

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def readable(closed: Collection[str]) -> list[str]:
    """Existing paths to read and to run, none of which is or holds a `closed` one."""
    shut = {os.path.realpath(path) for path in closed}
    named = [*SYSTEM, *_etc(), sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *_named(), *_compilers()]
    real = {os.path.realpath(path) for path in named if path and os.path.isabs(path)} - _unfit()
    return _outermost(path for tree in real for path in around(tree, shut))


def around(tree: str, closed: Collection[str]) -> list[str]:
    """`tree`, or what is in it but the closed; links are left out, as what they lead to counts."""
    if tree in closed:
        return []
    if not any(path.startswith(tree.rstrip("/") + "/") for path in closed):
        return [tree] if os.path.exists(tree) else []
    try:
        inside = [entry.path for entry in os.scandir(tree) if not entry.is_symlink()]
    except OSError:
        return []
    return [path for entry in sorted(inside) for path in around(entry, closed)]


def _unfit() -> set[str]:
    """The root itself, a home or a temporary folder is no part of the system, whatever a search path says."""
    return {"/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/opt", "/etc", "/run", os.path.expanduser("~")}


def _outermost(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(tree + "/") for tree in kept):
            kept.append(path)
    return kept


def _etc() -> list[str]:
    """What every user may read, and of the folders those that loaders, compilers and drivers look into."""
    files = [entry.path for entry in os.scandir("/etc") if _public(entry)] if os.path.isdir("/etc") else []
    return [*files, *(f"/etc/{name}" for name in ETC_FOLDERS)]


def _public(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IROTH)


def _named() -> list[str]:
    return [path for name in VARIABLES for path in os.environ.get(name, "").split(os.pathsep)]


def _compilers() -> list[str]:
    """Wherever they lie: with a conda or a CUDA installation elsewhere, their folder's neighbours are needed."""
    found = [shutil.which(os.environ.get("CC") or "gcc"), shutil.which(os.environ.get("CXX") or "g++")]
    nvcc = shutil.which("nvcc")
    trees = [os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))] if nvcc else []
    return [*(path for path in found if path), *trees]
