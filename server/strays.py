"""Ends processes that candidates left behind: what this process, a subreaper, has adopted.

A candidate is the leader of a session of its own and can leave it only for another new one: a child of another
session than ours is a candidate or comes from one, whatever it did. Zygote and worker both clean up so; the
worker gets what a zygote that was killed can't end any more. Blocking, bounded; only ever touches children.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

KILL_S = 10.0

_one_at_a_time = threading.Lock()


class Strays(NamedTuple):
    """How many were ended, and how many could not be within `KILL_S`."""

    ended: int
    left: int


def end_strays(spared: Collection[int] = ()) -> Strays:
    """Kill and collect, round by round, as the death of one hands its children to us, until there is none.

    Groups are killed at one moment, so that a process which forks and ends, over and over, can't slip through.
    """
    ended = 0
    deadline = time.monotonic() + KILL_S
    with _one_at_a_time:
        while strays := [pid for pid in _children() if pid not in spared and _foreign(pid, spared)]:
            if time.monotonic() > deadline:
                return Strays(ended, len(strays))
            for pid in strays:
                _kill_with_group(pid)
            ended += sum(collect(pid, deadline) is not None for pid in strays)
    return Strays(ended, 0)


def _kill_with_group(pid: int) -> None:
    for end, target in ((os.killpg, _group(pid)), (os.kill, pid)):
        with suppress(ProcessLookupError):
            end(target, signal.SIGKILL)


def collect(pid: int, deadline: float | None = None) -> int | None:
    """The exit code of a killed child (negative: a signal); None if it does not go in time (`KILL_S`)."""
    deadline = time.monotonic() + KILL_S if deadline is None else deadline
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def _children() -> list[int]:
    """Of all threads: the kernel gives an orphan to any of them."""
    listings = Path("/proc/self/task").glob("*/children")
    return [int(pid) for listing in listings for pid in _read(listing).split()]


def _read(listing: Path) -> str:
    try:
        return listing.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
        return ""


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return pid


def _foreign(pid: int, spared: Collection[int]) -> bool:
    """Neither of our own session nor of one that a spared child leads, and will answer for."""
    try:
        return os.getsid(pid) not in (os.getsid(0), *spared)
    except ProcessLookupError:
        return False
