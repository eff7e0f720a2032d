"""The event log: one JSON line for each reset and step, on stdout and appended to a file.

Lines are written by a thread for each target, so that a slow disk or a reader that does not read costs the
server nothing but lines: a target's backlog is capped, and what it loses or cannot write is reported once
on stderr. Each line goes out in one piece; `close` flushes within a bound. The newest steps are kept in memory,
without text of a submission and without any id, for people to see.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections import deque
from pathlib import Path
from typing import Any

from .config import Settings, SettingsError

BACKLOG = 10_000
BATCH = 200
CLOSE_S = 5.0
RECENT = 50
TOLD = (
    "time",
    "task_id",
    "language",
    "stage",
    "reward",
    "speedup",
    "speedup_low",
    "speedup_high",
    "runtime_ms",
    "roofline_frac",
    "wall_s",
)

_logger = logging.getLogger(__name__)


class EventLog:
    """Writes each event to every target. `write` never blocks and never raises for a target's faults.

    `recent` holds what may be shown of the last `RECENT` steps, the newest first.
    """

    def __init__(self, targets: list[_Target]) -> None:
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._targets = targets

    @classmethod
    def open(cls, settings: Settings) -> EventLog:
        """Stdout, and `settings.eval_log` when set. Raises `SettingsError` where that cannot be opened."""
        targets = [_Target("stdout", os.dup(1))]
        if settings.eval_log is not None:
            targets.append(_Target(str(settings.eval_log), _append_to(settings.eval_log)))
        return cls(targets)

    def write(self, event: dict[str, Any]) -> None:
        if event["event"] == "step":
            told = {name: event.get(name) for name in TOLD}
            self.recent.appendleft(told | {"outcome": event["outcome"]["kind"], "device": event["device"]["name"]})
        line = json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"
        for target in self._targets:
            target.put(line)

    def close(self) -> None:
        """Flush and end; idempotent. Blocks for `CLOSE_S` at most."""
        for target in self._targets:
            target.close()
        self._targets = []


class _Target:
    """One file descriptor and the thread that writes to it."""

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self._fd = fd
        self._lines: queue.Queue[bytes | None] = queue.Queue(BACKLOG)
        self._reported = False
        self._thread = threading.Thread(target=self._run, name=f"event log {name}", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._report("the backlog is full; lines are lost")

    def close(self) -> None:
        try:
            self._lines.put(None, timeout=CLOSE_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        lines: list[bytes] = []
        while True:
            line = self._lines.get()
            if line is not None:
                lines.append(line)
            if lines and (line is None or len(lines) == BATCH or self._lines.empty()):
                self._write(b"".join(lines))
                lines = []
            if line is None:
                os.close(self._fd)
                return

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self._report(f"{error.strerror or error}; lines are lost")

    def _report(self, fault: str) -> None:
        if not self._reported:
            self._reported = True
            _logger.error("event log %s: %s", self._name, fault)


def _append_to(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SettingsError(
            f"KERNEL_ENV_EVAL_LOG={str(path)!r} cannot be written: {error.strerror}; name a file in a folder"
            " that this user may write to"
        ) from error
