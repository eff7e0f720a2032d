"""The server's event log (KERNEL_ENV_EVAL_LOG): its steps as attempts, with their problems. Reads, never writes.

A line that is cut (the server was killed while it wrote) or that is no event is counted, not fatal. Steps that
ended in a fault of the environment say nothing of a submission: they are kept apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .attempt import Attempt, from_fields


class LogError(RuntimeError):
    """A file is no event log; the text says why."""


@dataclass(frozen=True)
class Log:
    """`attempts` in the order of the log, numbered for each task; `faults` those of the environment."""

    attempts: list[Attempt] = field(default_factory=list)
    faults: list[Attempt] = field(default_factory=list)
    unreadable: int = 0


def read(file: Path) -> Log:
    """Raises `LogError` where the file can't be read or no line of it is an event."""
    log, problems, numbers, texts = Log(), dict[str, str](), Counter[str](), dict[str, str]()
    unreadable = seen = 0
    for event in _events(file):
        if event is None:
            unreadable += 1
            continue
        seen += 1
        episode = str(event.get("episode_id", ""))
        if event.get("event") == "reset":
            text = str(event.get("problem", ""))
            problems[episode] = texts.setdefault(text, text)  # the same for all episodes of a task
        elif event.get("event") == "step":
            _take(log, event, problems.get(episode, ""), numbers)
    if unreadable and not seen:
        raise LogError(f"{file} is no event log: none of its {unreadable} lines is one of a reset or step")
    return replace(log, unreadable=unreadable)


def _take(log: Log, event: dict[str, Any], problem: str, numbers: Counter[str]) -> None:
    try:
        attempt = from_fields(event, numbers[str(event.get("task_id"))])
    except ValueError:
        return
    attempt = replace(attempt, problem_text=problem)
    if attempt.stage == "infrastructure":
        log.faults.append(attempt)
        return
    numbers[attempt.task_id] += 1
    log.attempts.append(attempt)


def _events(file: Path) -> Iterator[dict[str, Any] | None]:
    """Each line's event; None for a line that is none."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip():
                    yield _event(line)
    except OSError as error:
        raise LogError(f"{file} cannot be read: {error.strerror}") from error


def _event(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("event") in ("reset", "step") else None
