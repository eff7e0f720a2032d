"""The folders that evaluations run in: claimed while their server lives, removed whatever was left in them.

A claim is a lock on the folder that the kernel drops with the process: servers that share the temporary folder
from different PID namespaces see it too. Trees deeper than Python can recurse and paths longer than the kernel
takes are what `rm` is made for; modes are opened where they keep it out. Bounded; what can't be removed is logged.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 60.0
PREFIX = "kernel-env-"

_logger = logging.getLogger(__name__)


class Claim:
    """A new folder of this process, until `release` or the process's end."""

    def __init__(self) -> None:
        """Again where a sweep came between making and locking."""
        while True:
            self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
            try:
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            if _lock(self._lock) and os.path.isdir(self.path):
                return
            os.close(self._lock)

    def release(self) -> None:
        """Remove the folder. Blocking, as `remove` is."""
        remove(self.path)
        os.close(self._lock)


def sweep() -> None:
    """Remove the folders that servers of this user have left: those that nobody claims."""
    for entry in os.scandir(tempfile.gettempdir()):
        if re.fullmatch(rf"{PREFIX}\d+-\w+", entry.name):
            with _opened(entry.path) as folder:
                if folder is not None and os.fstat(folder).st_uid == os.getuid() and _lock(folder):
                    remove(entry.path)


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone by now, no folder, or another user's
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _lock(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove(path: str) -> None:
    """Blocking; never raises."""
    for command in (["rm", "-rf", "--", path], ["chmod", "-R", "u+rwx", "--", path], ["rm", "-rf", "--", path]):
        if not os.path.lexists(path):
            return
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            _logger.error("%s: %s", path, error)
    if os.path.lexists(path):
        _logger.error("%s could not be removed", path)
