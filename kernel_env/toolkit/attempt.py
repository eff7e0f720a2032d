"""`Attempt`: what is known of one judged submission, whichever file it comes from. Pure data.

What was not measured is None. A text that a model wrote (`code`, `message`) is as it was: who shows it, escapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .problems import place

UNBUILT = ("format", "compile")

# Fields that are named as in the observation.
NUMBERS = (
    "reward",
    "speedup",
    "speedup_low",
    "speedup_high",
    "runtime_ms",
    "ref_runtime_ms",
    "compiled_runtime_ms",
    "arithmetic_intensity",
    "t_min_ms",
    "std_ms",
    "min_ms",
    "max_ms",
)
TEXTS = ("task_id", "language", "stage", "rule", "code_hash", "bound", "clock", "precision")


@dataclass(frozen=True)
class Attempt:
    """Times in ms; `samples` counts timed calls, `number` says which of a problem's samples this is."""

    level: int
    problem: int
    number: int
    compiled: bool
    correct: bool
    task_id: str = ""
    language: str = ""
    stage: str = ""
    outcome: str = ""
    rule: str = ""
    message: str = ""
    hardware: str = ""
    device: str = ""
    code_hash: str = ""
    clock: str = ""
    precision: str = ""
    bound: str = ""
    reward: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    runtime_ms: float | None = None
    ref_runtime_ms: float | None = None
    compiled_runtime_ms: float | None = None
    arithmetic_intensity: float | None = None
    t_min_ms: float | None = None
    std_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    samples: int | None = None
    time: str = ""
    episode: str = ""
    turn: int = 0
    problem_text: str = ""
    code: str = ""

    @property
    def mock(self) -> bool:
        """Are its times made up?"""
        return self.device == "mock"

    @property
    def roofline_fraction(self) -> float | None:
        return self.t_min_ms / self.runtime_ms if self.t_min_ms and self.runtime_ms else None


def observed(seen: Mapping[str, Any], number: int) -> Attempt:
    """The attempt that a step's observation tells of, as a dict of its fields. Raises ValueError for no task."""
    told = dict(seen.get("metadata") or {})
    return from_fields({**told, **seen, "message": seen.get("feedback", "")}, number)


def from_fields(found: Mapping[str, Any], number: int) -> Attempt:
    """From one flat mapping, as an event of the log is. Raises ValueError where it names no task."""
    task_id = _text(found, "task_id")
    if not task_id:
        raise ValueError("no task_id")
    level, problem = place(task_id) or (0, 0)
    stage = _text(found, "stage")
    device = found.get("device") if isinstance(found.get("device"), dict) else {}
    outcome = found.get("outcome")
    kind = outcome.get("kind") if isinstance(outcome, dict) else outcome
    named: dict[str, Any] = {name: finite(found.get(name)) for name in NUMBERS}
    named |= {name: _text(found, name) for name in TEXTS}
    samples = finite(found.get("samples"))
    return Attempt(
        level=level,
        problem=problem,
        number=number,
        compiled=stage not in UNBUILT,
        correct=stage == "passed",
        outcome=kind if isinstance(kind, str) else "",
        message=_text(found, "message") or _message(outcome),
        hardware=_text(device or {}, "name"),
        device=device_label(device or {}),
        samples=None if samples is None else int(samples),
        time=_text(found, "time"),
        episode=_text(found, "episode_id"),
        turn=int(finite(found.get("turn")) or 0),
        code=_text(found, "code"),
        **named,
    )


def device_label(device: Mapping[str, Any]) -> str:
    """As PyTorch names it: `cuda:0`, `cpu`; `mock` for what is none."""
    kind = str(device.get("kind", ""))
    return f"cuda:{device.get('index', 0)}" if kind == "cuda" else kind


def finite(value: object) -> float | None:
    """A number that means something, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _message(outcome: object) -> str:
    return _text(outcome, "message") if isinstance(outcome, dict) else ""
