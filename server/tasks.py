"""Tasks: reference programs in KernelBench's form, found by id, split in train and eval, picked by seed.

A text is a usable task when it parses and defines `Model`, `get_inputs` and `get_init_inputs` at module
level; otherwise it is listed with its fault and the others work. Texts are parsed, never run: no torch.
The split of a task follows from its id alone (see `split_of`); the pick of a seed follows from the seed
and the usable ids alone. Both are the same on any machine: what a task needs from outside this package may be
missing on some (see `outside`), so such a task is found by id, and drawn only from a set of nothing else.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from .config import Settings
from .outside import Outside, outside
from .task_sources import SourceError, TaskError, TaskText, read
from .task_syntax import fault_of
from .undecided import undecided

__all__ = [
    "BrokenTaskError",
    "DuplicateTaskError",
    "SourceError",
    "SplitError",
    "Task",
    "TaskError",
    "TaskSet",
    "UnavailableTaskError",
    "UnknownTaskError",
    "split_of",
    "user_task",
]

Split = Literal["train", "eval"]
SPLITS: tuple[str, ...] = get_args(Split)
EVAL_ONE_IN = 5

_NUMBERED = re.compile(r"([A-Za-z]{0,8})(\d{1,9})(?:_.*)?", re.DOTALL)


class UnknownTaskError(TaskError):
    """No task has this id."""


class BrokenTaskError(TaskError):
    """The task exists but cannot be used."""


class UnavailableTaskError(TaskError):
    """The task is sound, but needs what this machine lacks; the text says how to get it."""


class DuplicateTaskError(TaskError):
    """Two texts claim one id."""


class SplitError(TaskError):
    """The split does not exist, or holds no usable task."""


@dataclass(frozen=True)
class Task:
    """One task. `hash` is the first 16 hex digits of the sha256 of its text; `fault` says why it is broken.

    `outside` is what it needs beyond this package, None if nothing. `undecided` says why the checks in force leave
    it out of the splits.
    """

    id: str
    level: int
    name: str
    source: str
    hash: str
    origin: str
    split: Split
    fault: str | None = None
    outside: Outside | None = None
    undecided: str = ""

    @property
    def missing(self) -> str | None:
        """What this machine lacks for it."""
        return self.outside.missing if self.outside else None

    @property
    def usable(self) -> bool:
        return not self.fault and not self.missing


class TaskSet:
    """The tasks of a server, in natural order: level, then number, then name. Immutable."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """Raises `DuplicateTaskError` when two tasks share an id."""
        self._tasks: dict[str, Task] = {}
        for task in sorted(tasks, key=_natural):
            known = self._tasks.setdefault(task.id, task)
            if known is not task:
                raise DuplicateTaskError(
                    f"two tasks have the id {task.id!r}: {known.origin} and {task.origin}; rename one"
                    " or leave one source out of KERNEL_ENV_TASKS"
                )

    @classmethod
    def load(cls, settings: Settings) -> TaskSet:
        """Read the sources that `settings.tasks` names; raises `SourceError`, `DuplicateTaskError`."""
        tasks = (_task(text) for text in read(settings))
        if settings.checks == "strict":
            tasks = (replace(task, undecided=_undecided(task)) for task in tasks)
        # The mock evaluator runs no task, and so lacks nothing.
        return cls(replace(task, outside=None) if settings.evaluator == "mock" else task for task in tasks)

    @property
    def digest(self) -> str:
        """Identifies the set: 16 hex digits over every id and hash."""
        lines = "".join(f"{task.id} {task.hash}\n" for task in self._tasks.values())
        return _hex(lines)[:16]

    def all(self) -> tuple[Task, ...]:
        """Every task, also those that are broken or that this machine can't run."""
        return tuple(self._tasks.values())

    def ids(self, split: str | None = None) -> tuple[str, ...]:
        """Ids of the usable tasks, of one split when given; raises `SplitError` for an unknown split.

        A task on which nothing can be decided is in no split.
        """
        if split is not None and split not in SPLITS:
            raise SplitError(f"unknown split {_short(split)}; use one of: {', '.join(SPLITS)}")
        usable = [task for task in self._tasks.values() if task.usable]
        return tuple(task.id for task in usable if split is None or (split == task.split and not task.undecided))

    def get(self, task_id: str) -> Task:
        """The usable task of this id; raises `UnavailableTaskError` and what `known` raises."""
        task = self.known(task_id)
        if task.missing:
            raise UnavailableTaskError(f"the task {task_id!r} is not available here: {task.missing}")
        return task

    def known(self, task_id: str) -> Task:
        """The task of this id, whether it can run here or not; raises `UnknownTaskError`, `BrokenTaskError`."""
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTaskError(self._unknown(task_id))
        if task.fault:
            raise BrokenTaskError(f"the task {task_id!r} is broken: {task.fault}")
        return task

    def pick(self, seed: int | None, split: str) -> Task:
        """The task of a seed: a random one when None; raises `SplitError`.

        The seed ranks the ids by a hash and takes the first, so a task that is added changes the pick of
        those seeds alone that now pick it.
        """
        ids = self._drawn(split)
        if not ids:
            raise SplitError(self._empty(split))
        if seed is None:
            return self._tasks[secrets.choice(ids)]
        return self._tasks[min(ids, key=lambda task_id: _hex(f"{seed}\n{task_id}"))]

    def with_faults(self, faults: Mapping[str, str]) -> TaskSet:
        """The same set with further tasks marked as broken: id to reason. Unknown ids are ignored."""
        return TaskSet(replace(task, fault=task.fault or faults.get(task.id)) for task in self._tasks.values())

    def _drawn(self, split: str) -> tuple[str, ...]:
        """Ids to pick from."""
        if all(task.outside for task in self._tasks.values()):
            return self.ids(split)
        return tuple(task_id for task_id in self.ids(split) if self._tasks[task_id].outside is None)

    def _unknown(self, task_id: str) -> str:
        wanted = task_id.lower()
        names = {known.lower(): known for known in self._tasks}
        close = [known for low, known in names.items() if wanted and low.rpartition("/")[2] == wanted]
        if wanted:
            begins = [known for low, known in names.items() if f"/{wanted}" in f"/{low}"]
            close += begins[:3]
        close += [names[low] for low in difflib.get_close_matches(wanted[:200], names, n=3, cutoff=0.6)]
        hint = f"did you mean {' or '.join(dict.fromkeys(close))}? " if close else ""
        return (
            f"unknown task {_short(task_id)}; {hint}`kernel-env tasks list` shows all {len(self.ids())},"
            f" such as {', '.join(self.ids()[:3])}"
        )

    def _empty(self, split: str) -> str:
        filled = [name for name in SPLITS if self._drawn(name)]
        if not filled:
            return f"no usable task at all among {len(self._tasks)}; `kernel-env tasks list` says why"
        return f"the split {split!r} holds no usable task of this task set; use {' or '.join(filled)}"


def user_task(source: str) -> Task:
    """A task that a client brings, named after its hash. Raises `BrokenTaskError`, `UnavailableTaskError`."""
    name = _hex(source)[:16]
    text = TaskText(id=f"user/{name}", level=0, name=name, source=source, origin="a client")
    return TaskSet([_task(text)]).get(text.id)


def split_of(task_id: str) -> Split:
    """The split of a task, from its id alone; one task in five is `eval`.

    Numbered tasks (`19_ReLU`, `e07_LayerNorm`) are taken in blocks of five consecutive numbers of a level,
    and a hash of the block says which of the five is `eval`: so both splits occur in every level that holds
    a whole block. Other ids are hashed themselves.
    """
    level, _, name = task_id.rpartition("/")
    match = _NUMBERED.fullmatch(name)
    if match:
        block, place = divmod(int(match[2]) - 1, EVAL_ONE_IN)
        chosen = _number(f"{level}/{match[1]}{block}") == place
    else:
        chosen = _number(task_id) == 0
    return "eval" if chosen else "train"


def _task(text: TaskText) -> Task:
    fault = text.fault or fault_of(text.source)
    return Task(
        id=text.id,
        level=text.level,
        name=text.name,
        source=text.source,
        hash=_hex(text.source)[:16],
        origin=text.origin,
        split=split_of(text.id),
        fault=fault,
        outside=None if fault else outside(text.source),
    )


def _undecided(task: Task) -> str:
    return "" if task.fault else undecided(task.id, task.source)


def _natural(task: Task) -> tuple[int, str, int, str, str]:
    match = _NUMBERED.fullmatch(task.name)
    prefix, number = (match[1], int(match[2])) if match else (task.name, 0)
    return task.level, prefix, number, task.name, task.id


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _number(text: str) -> int:
    return int(_hex(text), 16) % EVAL_ONE_IN


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
