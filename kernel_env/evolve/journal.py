"""`run.jsonl`: everything that happened, one JSON object a line, appended and never changed.

A line that cost money is on the disk before the run goes on. The file alone rebuilds a run: what was answered is
never asked again, what was evaluated not evaluated again. A last line that a kill cut short is dropped. One
process at a time may append.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import RunFolderError
from .redact import Redactor

FORMAT = 1

Event = dict[str, Any]


class Journal:
    """The open file. `write` is the only way anything gets in; all of it is redacted."""

    def __init__(self, path: Path, redact: Redactor) -> None:
        """Raises `RunFolderError` where another process has it."""
        self.path = path
        self._redact = redact
        self._file = path.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RunFolderError(f"{path.parent} is in use by another process") from None

    def load(self) -> list[Event]:
        """What is there; a last line without its end is removed from the file."""
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        return list(parse(data[:whole], self.path))

    def write(self, event: str, durable: bool = False, **fields: Any) -> None:
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self._file.write(json.dumps(self._redact.deep(line), allow_nan=False).encode() + b"\n")
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Event]:
    """The events of a journal or recording, without holding it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error}") from error
    return list(parse(data[: data.rfind(b"\n") + 1], path))


def parse(data: bytes, path: Path) -> Iterator[Event]:
    for number, line in enumerate(data.splitlines(), 1):
        try:
            event = json.loads(line)
        except ValueError:
            raise RunFolderError(f"{path}, line {number}, is not JSON: the file was changed") from None
        if number == 1 and (not isinstance(event, dict) or event.get("format") != FORMAT):
            raise RunFolderError(f"{path} is no journal of a run, or of another version")
        yield event
