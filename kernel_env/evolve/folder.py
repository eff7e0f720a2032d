"""The run folder: `config.yaml`, `run.jsonl`, `candidates/`, `best.py`, `best.json`, `report.html`.

Files other than the journal are for people and are written whole or not at all; a run is rebuilt from the
journal alone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import yaml

from .errors import RunFolderError
from .journal import Event, Journal
from .redact import Redactor

JOURNAL = "run.jsonl"
MOST_AT_ONCE = 1000


class RunFolder:
    """An open run folder; `events` is what the journal held when it was opened."""

    def __init__(self, path: Path, redact: Redactor, resume: bool) -> None:
        """Raises `RunFolderError` where the folder holds a run and `resume` is not set, or the other way round."""
        self.path = path
        self.redact = redact
        known = (path / JOURNAL).is_file() and (path / JOURNAL).stat().st_size > 0
        if known and not resume:
            raise RunFolderError(f"{path} holds a run already: resume it, or name another folder")
        if resume and not known:
            raise RunFolderError(f"{path} holds no run to resume ({JOURNAL} is missing)")
        try:
            (path / "candidates").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"cannot make {path}: {error}") from error
        self.journal = Journal(path / JOURNAL, redact)
        self.events: list[Event] = self.journal.load()
        if resume and not self.events:
            self.journal.close()
            raise RunFolderError(f"{path} holds no run to resume: it was ended before it began")

    def close(self) -> None:
        self.journal.close()

    def write_config(self, config: dict[str, Any]) -> None:
        self.write("config.yaml", yaml.safe_dump(self.redact.deep(config), sort_keys=False))

    def write_candidate(self, node: int, code: str) -> None:
        self.write(f"candidates/{node:04}.py", self.redact(code))

    def write_best(self, code: str, facts: dict[str, Any]) -> None:
        self.write("best.py", self.redact(code))
        self.write("best.json", json.dumps(self.redact.deep(facts), indent=2, allow_nan=False) + "\n")

    def write(self, name: str, text: str) -> None:
        """Replace a file as a whole."""
        path = self.path / name
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, encoding="utf-8", errors="replace")
        os.replace(part, path)


def fresh_path(parent: Path) -> Path:
    """A new folder, named after the time. Raises `RunFolderError`."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(MOST_AT_ONCE):
        path = parent / f"{stamp}{f'-{number}' if number else ''}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(f"cannot make {path}: {error}") from error
        return path
    raise RunFolderError(f"{parent} has {MOST_AT_ONCE} runs of this second: name a folder")
