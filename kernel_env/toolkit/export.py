"""Training data from runs: right submissions with their prompts, as lines of chat messages for SFT.

One line a submission: `{"messages": [user, assistant], "task_id", "language", "reward", "speedup", ...}`, the form
that TRL and most trainers take as it is. Right is what the verdict calls so; the same code of a task comes once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .attempt import Attempt


@dataclass(frozen=True)
class Choice:
    """What is taken: at least this fast (None: any right one), and of each task the `best` fastest (None: all)."""

    speedup: float | None = None
    best: int | None = None


@dataclass(frozen=True)
class Exported:
    """The lines; `no_text` right ones lack code or problem, `repeated` are in already, `slow` are not chosen."""

    lines: list[dict[str, Any]]
    no_text: int
    repeated: int
    slow: int


def export(attempts: Sequence[Attempt], choice: Choice) -> Exported:
    """In the order of the attempts' tasks, the fastest of a task first."""
    right = [attempt for attempt in attempts if attempt.correct and not attempt.mock]
    whole = [attempt for attempt in right if attempt.code and attempt.problem_text]
    single = list(_single(whole))
    chosen = [attempt for attempt in single if _fast(attempt, choice)]
    taken = list(_best(chosen, choice.best))
    return Exported(
        lines=[_line(attempt) for attempt in taken],
        no_text=len(right) - len(whole),
        repeated=len(whole) - len(single),
        slow=len(single) - len(taken),
    )


def _single(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    seen: set[tuple[str, str]] = set()
    for attempt in attempts:
        key = attempt.task_id, hashlib.sha256(attempt.code.strip().encode(errors="replace")).hexdigest()
        if key not in seen:
            seen.add(key)
            yield attempt


def _fast(attempt: Attempt, choice: Choice) -> bool:
    return choice.speedup is None or (attempt.speedup is not None and attempt.speedup >= choice.speedup)


def _best(attempts: Sequence[Attempt], most: int | None) -> Iterator[Attempt]:
    tasks: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        tasks.setdefault(attempt.task_id, []).append(attempt)
    for found in tasks.values():
        yield from sorted(found, key=lambda attempt: -(attempt.speedup or 0.0))[:most]


def _line(attempt: Attempt) -> dict[str, Any]:
    from kernel_env.server.problem import fenced

    return {
        "messages": [
            {"role": "user", "content": attempt.problem_text},
            {"role": "assistant", "content": fenced(attempt.code)},
        ],
        "task_id": attempt.task_id,
        "language": attempt.language,
        "reward": attempt.reward,
        "speedup": attempt.speedup,
        "hardware": attempt.hardware,
        "code_hash": attempt.code_hash,
    }
