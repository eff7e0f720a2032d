"""References timed as baselines: eager, or under `torch.compile`, by the way of a submission that is audited.

The reference runs in a candidate's place, without static checks and guard, so a baseline is measured by the same
clock, with the same flush and the same checks of its outputs, as a kernel is. What can't be measured has a reason.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_env.abreast import abreast

from .attempt import device_label
from .baselines import FP32, BaselineError, content, file_name, precision_of, write

if TYPE_CHECKING:
    from kernel_env.server.outcome import Device, Evaluation, TaskSource
    from kernel_env.server.pool import Pool
    from kernel_env.server.tasks import Task

EAGER = "eager"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
VARIANTS = (EAGER, *MODES, "cudagraphs")

SAVE_EVERY_S = 2.0

Levels = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Measured:
    """One reference's time as a baseline file holds it; without `stats`, `reason` says why there is none."""

    task_id: str
    variant: str
    stats: dict[str, Any] | None
    reason: str = ""


def file_of(variant: str) -> str:
    """The name of the variant's file, as KernelBench has it."""
    if variant == EAGER:
        return file_name(EAGER)
    return file_name(variant) if variant == "cudagraphs" else file_name("inductor", variant)


def in_precision(folder: str, precision: str) -> str:
    """A hardware folder's name; each precision has files of its own."""
    return folder if precision == FP32 else f"{folder}_{precision}"


def code_of(source: TaskSource, variant: str) -> str:
    """The task's source as a submission in which `ModelNew` is the reference."""
    if variant == EAGER:
        return source.as_submission
    options = 'backend="cudagraphs"' if variant == "cudagraphs" else f'backend="inductor", mode="{variant}"'
    return source.as_compiled(options)


def measure(
    pool: Pool, device: Device, work: Sequence[tuple[Task, str]], budget_s: float, at_once: int
) -> AsyncIterator[Measured]:
    """Each task in its variant, in the order in which they are done."""

    async def one(task: Task, variant: str) -> Measured:
        return _measured(task, variant, await pool.evaluate(_request(task, variant, device, budget_s)))

    return abreast((partial(one, task, variant) for task, variant in work), at_once)


def _request(task: Task, variant: str, device: Device, budget_s: float) -> Any:
    from kernel_env.server.outcome import EvaluationRequest, TaskSource

    source = TaskSource(id=task.id, source=task.source, hash=task.hash)
    return EvaluationRequest(
        id=uuid.uuid4().hex,
        task=source,
        language="cuda" if device.kind == "cuda" else "cpp",
        code=code_of(source, variant),
        budget_s=budget_s,
        mode="audit",
    )


def _measured(task: Task, variant: str, evaluation: Evaluation) -> Measured:
    outcome = evaluation.outcome
    timing = outcome.timing if outcome.kind == "passed" else None
    if timing is None:
        reason = getattr(outcome, "message", "") or getattr(outcome, "note", "") or "it was not timed"
        return Measured(task.id, variant, None, f"{outcome.kind}: {reason[:500]}")
    own = {
        "task_id": task.id,
        "task_hash": task.hash,
        "clock": timing.clock,
        "versions": evaluation.device.versions,
    }
    spread = {"std": timing.std_ms, "min": timing.min_ms, "max": timing.max_ms}
    stats = {
        "mean": timing.runtime_ms,
        **{name: value for name, value in spread.items() if value is not None},
        "num_trials": timing.samples,
        "hardware": evaluation.device.name,
        "device": device_label(evaluation.device.model_dump()),
        "kernel_env": own,
    }
    return Measured(task.id, variant, stats)


class Timings:
    """The baseline files of one device's folder, kept in step with what is measured; `missing` could not be."""

    def __init__(self, folder: Path, hardware: str, again: bool = False, precision: str = FP32) -> None:
        """`again`: times of another device or precision make room for those of this one."""
        self.folder = folder
        self.missing: list[Measured] = []
        self._hardware = hardware
        self._again = again
        self._precision = precision
        self._contents: dict[str, Levels] = {}
        self._changed: set[str] = set()
        self._saved = time.monotonic()

    def file(self, variant: str) -> Path:
        return self.folder / file_of(variant)

    def has(self, task_id: str, variant: str) -> bool:
        """Raises `BaselineError` for a time of another device or precision."""
        level, name = _key(task_id)
        found = self._content(variant).get(level, {}).get(name)
        if found is not None and not self._alike(found):
            raise BaselineError(
                f"{self.file(variant)} was measured on {found.get('hardware')} in {precision_of(found)}, this is"
                f" {self._hardware} in {self._precision};"
                " name another folder with --hardware, or measure all of it with --again"
            )
        return found is not None

    def take(self, result: Measured) -> str:
        """Keep it; one line that tells of it."""
        if result.stats is None:
            self.missing.append(result)
            return f"{result.task_id} {result.variant} not measured"
        level, name = _key(result.task_id)
        own = {**result.stats["kernel_env"], "precision": self._precision}
        self._content(result.variant).setdefault(level, {})[name] = {**result.stats, "kernel_env": own}
        self._changed.add(result.variant)
        if time.monotonic() - self._saved > SAVE_EVERY_S:
            self.save()
        return f"{result.task_id} {result.variant} {result.stats['mean']:.4g} ms"

    def save(self) -> None:
        for variant in self._changed:
            write(
                self.file(variant), {level: _in_order(found) for level, found in self._contents[variant].items()}
            )
        self._changed.clear()
        self._saved = time.monotonic()

    def _content(self, variant: str) -> Levels:
        if variant not in self._contents:
            file = self.file(variant)
            found = content(file) if file.exists() else {}
            self._contents[variant] = {level: self._kept(tasks) for level, tasks in found.items()}
        return self._contents[variant]

    def _kept(self, tasks: dict[str, Any]) -> dict[str, Any]:
        return {name: of for name, of in tasks.items() if not self._again or self._alike(of)}

    def _alike(self, found: Mapping[str, Any]) -> bool:
        return found.get("hardware") == self._hardware and precision_of(found) == self._precision


def _in_order(tasks: dict[str, Any]) -> dict[str, Any]:
    def number(name: str) -> tuple[int, str]:
        digits = re.search(r"\d+", name)
        return (int(digits[0]) if digits else 0, name)

    return {name: tasks[name] for name in sorted(tasks, key=number)}


def _key(task_id: str) -> tuple[str, str]:
    level, _, name = task_id.partition("/")
    return level, f"{name}.py"
