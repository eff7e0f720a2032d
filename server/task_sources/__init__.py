"""Where tasks come from: one module for each kind of source, `read` to combine them.

`settings.tasks` names the sources in order: `embedded`, `kernelbench`, `huggingface`, or a path. A source
yields plain texts (`TaskText`); whether a text is a usable task is decided in `tasks`, not here. Nothing is
imported or executed, and torch is never loaded.
"""

from __future__ import annotations

from ..config import Settings
from . import files, hub
from .text import SourceError, TaskError, TaskText

__all__ = ["SourceError", "TaskError", "TaskText", "read"]


def read(settings: Settings) -> list[TaskText]:
    """The texts of every source in `settings.tasks`, in order; raises `SourceError`."""
    if not settings.tasks:
        raise SourceError("no task source is set; KERNEL_ENV_TASKS=embedded needs no download")
    return [text for source in settings.tasks for text in _read_one(source, settings)]


def _read_one(source: str, settings: Settings) -> list[TaskText]:
    if source == "embedded":
        return files.embedded()
    if source == "kernelbench":
        return files.kernelbench(settings.kernelbench_dir)
    if source == "huggingface":
        return hub.download()
    return files.path(source)
