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

ROUNDS = 50
KILL_S = 10.0

_one_at_a_time = threading.Lock()


def end_strays(spared: Collection[int] = ()) -> int:
    """Kill and collect, round by round, as the death of one hands its children to us; how many there were."""
    ended = 0
    with _one_at_a_time:
        for _ in range(ROUNDS):
            strays = [pid for pid in _children() if pid not in spared and _foreign(pid)]
            if not strays:
                break
            for pid in strays:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended += sum(collect(pid) is not None for pid in strays)
    return ended


def collect(pid: int) -> int | None:
    """The exit code of a killed child (negative: a signal); None if it does not go within `KILL_S`."""
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def _children() -> list[int]:
    """Of all threads: the kernel gives an orphan to any of them."""
    listings = Path("/proc/self/task").glob("*/children")
    return [int(pid) for listing in listings for pid in _read(listing).split()]


def _read(listing: Path) -> str:
    try:
        return listing.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
        return ""


def _foreign(pid: int) -> bool:
    try:
        return os.getsid(pid) != os.getsid(0)
    except ProcessLookupError:
        return False
