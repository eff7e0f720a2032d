"""The unit that every source yields, and the errors of tasks.

`TaskText` is a task's text before anyone has looked inside it. Every error of this package and of `tasks`
is a `TaskError`, whose text says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT_BYTES = 1 << 20


class TaskError(ValueError):
    """Base of everything that can be wrong with tasks, their sources, and requests for them."""


class SourceError(TaskError):
    """A source cannot be read: a missing folder, no network, no tasks in it."""


@dataclass(frozen=True)
class TaskText:
    """A task's text; `origin` says where it is from, `fault` why it could not be read (then None)."""

    id: str
    level: int
    name: str
    source: str
    origin: str
    fault: str | None = None
