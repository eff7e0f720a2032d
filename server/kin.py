"""A candidate's process seen from outside: other processes of its, threads, code that it has mapped.

Looked at while its processes are stopped. What the system does not let us see (the maps of another user's process
without the right to trace it) is not looked at here; `census` sees it from inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from . import paths

THREADS = 64
THREADS_PER_CORE = 4


def problem(pid: int, folder: str, twin: int | None) -> str | None:
    """What a candidate that has answered must not have, or None. It builds somewhere in `folder`.

    Code is compared with that of `twin`, a process of the same origin that runs no submission, if there is one.
    """
    others = [name for name, own, *kin, state in _processes() if own != pid and pid in kin and state != "Z"]
    if others:
        return f"a process was left running ({', '.join(others[:4])}): a kernel runs in this one"
    threads = _count(f"/proc/{pid}/task")
    if threads > THREADS + THREADS_PER_CORE * (os.cpu_count() or 1):
        return f"{threads} threads were left running: end them in the call that starts them"
    foreign = _foreign(pid, folder, twin) if twin else set()
    if foreign:
        return f"code was loaded from {Path(foreign.pop()).name}, which the submission did not build"
    return None


def _foreign(pid: int, folder: str, twin: int) -> set[str]:
    known = (*_roots(), f"{Path(folder).resolve()}/", "/memfd:", "/dev/")  # `census` tells what a memfd holds
    mapped = {path for path in _code(pid) if path.startswith("/") and not path.startswith(known)}
    return mapped - set(_code(twin))


@cache
def _roots() -> tuple[str, ...]:
    return tuple(f"{root}/" for root in paths.readable([]))


def _processes() -> Iterable[tuple[str, int, int, int, str]]:
    """Name, id, parent, session and state."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            head, tail = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        state, parent, _, session = tail.split()[:4]
        yield head.split("(", 1)[1], int(folder.name), int(parent), int(session), state


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def _code(pid: int) -> Iterable[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "x" in fields[1]:
            yield fields[5]
