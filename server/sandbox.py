"""What our processes are not given, and what a candidate's gives up before it reads the submission.

Order matters: new session, descriptors, limits, environment, user id, then the death signal, which the kernel
forgets with the old user, no_new_privs, Landlock, and the filter of system calls last, as it refuses some of what
comes before. The parent-death signal is a courtesy (a candidate can clear it); the kill by process group and by
user and the zygote's adoption of strays are the authority. Address space is not limited: CUDA reserves terabytes
of it. A layer that fails raises, so that nothing runs with less than the worker's plan.
"""

from __future__ import annotations

import os
import resource
import signal
import site
import tempfile
from collections.abc import Iterable

from . import capabilities, identity, kernel, landlock, model_cache, paths, seccomp
from .kernel import adopt_orphans, close_to_others
from .layers import Plan

__all__ = [
    "adopt_orphans",
    "clean_environment",
    "close_to_others",
    "confine",
    "die_with_parent",
    "trusted_environment",
]

FILE_BYTES = 2 << 30
OPEN_FILES = 4096
PROCESSES = 512
PROCESSES_PER_CORE = 4
FIRST_TO_GO = "1000"  # the kernel's highest: where memory runs out, a candidate ends before anything of ours

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
OWN_ENVIRONMENT = ["HOME", "USER", "TMPDIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"]
TRUSTED_ENVIRONMENT = ["HOME", "USER", "LOGNAME", "TMPDIR"]
PATH_LISTS = {"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PYTHONPATH"}


def die_with_parent(parent: int) -> None:
    """Ask for SIGKILL when the parent ends; exits at once if it is already gone."""
    kernel.die_with_parent(parent, signal.SIGKILL)


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """An environment rebuilt from an allow-list: no tokens, no settings of the server.

    No search path depends on the working folder or on HOME: our processes run where candidates may write.
    """
    return {**_kept(KEPT_ENVIRONMENT), **_user_packages(), **model_cache.environment(), **extra}


def trusted_environment(extra: dict[str, str]) -> dict[str, str]:
    """The same for processes that run no submission: home, caches and temporary files are the server's."""
    return clean_environment({**_kept(TRUSTED_ENVIRONMENT), **extra})


def _kept(names: Iterable[str]) -> dict[str, str]:
    present = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {name: _absolute(value) if name in PATH_LISTS else value for name, value in present.items()}


def _absolute(paths: str) -> str:
    """An empty entry means the working folder."""
    return os.pathsep.join(os.path.abspath(entry) for entry in paths.split(os.pathsep))


def _user_packages() -> dict[str, str]:
    """The user's own site-packages, where in use, stay where they are for this process."""
    return {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {"PYTHONNOUSERSITE": "1"}


def confine(scratch: str, keep_fds: Iterable[int], parent: int, plan: Plan) -> None:
    """Run in the forked child, before any line of the submission is read. Raises `OSError`."""
    os.setsid()
    _close_other_descriptors(keep_fds)
    limit()
    settle_in(scratch)
    if plan.uid:
        limit_processes()
        identity.become(plan.uid)
    die_with_parent(parent)
    if plan.confined:
        capabilities.drop()
        kernel.prctl(kernel.NO_NEW_PRIVS, 1)
    if plan.files or plan.scopes:
        landlock.restrict(plan.read, (*plan.write, paths.OWN_PROCESS, scratch), plan.files)
    if plan.seccomp:
        seccomp.load(plan.protected)


def settle_in(scratch: str) -> None:
    """Everything that programs write without being told where goes there."""
    os.environ.update(
        HOME=scratch,
        USER="candidate",
        TMPDIR=scratch,
        TRITON_CACHE_DIR=f"{scratch}/triton",
        TORCH_EXTENSIONS_DIR=f"{scratch}/extensions",
        XDG_CACHE_HOME=scratch,
    )
    tempfile.tempdir = scratch
    try:
        os.chdir(scratch)
    except PermissionError:  # under our own user an earlier process of the submission's can have closed it
        os.chmod(scratch, 0o700)
        os.chdir(scratch)
    os.umask(0o077)


def limit() -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    try:
        _first_to_go()
    except PermissionError:
        # Of a process that is closed to others the kernel gives these files to root. Nothing of a submission runs
        # in it yet, and others' are kept from it by their own layers.
        kernel.open_to_others()
        try:
            _first_to_go()
        finally:
            kernel.close_to_others()


def _first_to_go() -> None:
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(FIRST_TO_GO)


def limit_processes() -> None:
    """Threads count as well. Only with a user id of one's own: the kernel counts by user."""
    _limit(resource.RLIMIT_NPROC, PROCESSES + PROCESSES_PER_CORE * (os.cpu_count() or 1))


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
