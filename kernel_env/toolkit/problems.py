"""KernelBench's numbers for tasks: `level1/19_ReLU` is problem 19 of level 1, and so is `level1/e19_...`.

A number names one task of a level. Where several tasks bear it, the one without a prefix of letters is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_ID = re.compile(r"level(\d{1,9})/([A-Za-z]{0,8})(\d{1,9})(?:_.*)?", re.DOTALL)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
LARGEST_RANGE = 10_000

Place = tuple[int, int]


class SelectionError(ValueError):
    """What was asked for names no problem; the text says what is there."""


def place(task_id: str) -> Place | None:
    """Level and number of a task; None for one that has none."""
    match = _ID.fullmatch(task_id)
    return (int(match[1]), int(match[3])) if match else None


def by_place(task_ids: Iterable[str]) -> dict[Place, str]:
    """The task that each level and number names. Raises `SelectionError` where that is not one task."""
    found: dict[Place, str] = {}
    clashes: dict[Place, list[str]] = {}
    for task_id in sorted(task_ids, key=_prefix):
        where = place(task_id)
        if where is None:
            continue
        known = found.setdefault(where, task_id)
        if known != task_id and _prefix(known) == _prefix(task_id):
            clashes.setdefault(where, [known]).append(task_id)
    for (level, number), ids in clashes.items():
        raise SelectionError(
            f"problem {number} of level {level} may be {' or '.join(ids)}; name one task source with --tasks"
        )
    return found


def _prefix(task_id: str) -> str:
    match = _ID.fullmatch(task_id)
    return match[2] if match else ""


def numbers(text: str) -> list[int]:
    """`1-3,7` as [1, 2, 3, 7]. Raises `SelectionError`."""
    chosen: list[int] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + LARGEST_RANGE:
            raise SelectionError(f"{text!r} names no problems; give numbers and ranges by commas, such as 1-10,23")
        chosen += range(first, last + 1)
    return list(dict.fromkeys(chosen))


def select(
    tasks: Mapping[Place, str], levels: Sequence[int] | None, problems: Sequence[int] | None
) -> dict[Place, str]:
    """The tasks of these levels and numbers, in order; None is all. Raises `SelectionError` if one is missing."""
    there = sorted({level for level, _ in tasks})
    for level in levels or ():
        if level not in there:
            raise SelectionError(f"there is no level {level}; the task sources hold {_list(there)}")
    chosen = {
        where: tasks[where]
        for where in sorted(tasks)
        if (levels is None or where[0] in levels) and (problems is None or where[1] in problems)
    }
    missing = set(problems or ()) - {number for _, number in chosen}
    if missing or not chosen:
        told = f"problem {_list(sorted(missing))}" if missing else "a numbered problem"
        raise SelectionError(f"the chosen levels hold no {told}; `kernel-env tasks list` shows what is there")
    return chosen


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
