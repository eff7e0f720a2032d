"""References timed as baselines: eager, or under `torch.compile`, by the way of a submission that is audited.

The reference runs in a candidate's place, without static checks and guard, so a baseline is measured by the same
clock, with the same flush and the same checks of its outputs, as a kernel is. What can't be measured has a reason.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .attempt import device_label
from .baselines import file_name

if TYPE_CHECKING:
    from kernel_env.server.outcome import Device, Evaluation
    from kernel_env.server.pool import Pool
    from kernel_env.server.tasks import Task

EAGER = "eager"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
VARIANTS = (EAGER, *MODES, "cudagraphs")

_COMPILED = """


def ModelNew(*arguments):
    model = Model(*arguments)
    model.compile({options})
    return model
"""


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


def code_of(source: str, variant: str) -> str:
    """The task's source as a submission in which `ModelNew` is the reference."""
    if variant == EAGER:
        return f"{source}\n\nModelNew = Model\n"
    options = 'backend="cudagraphs"' if variant == "cudagraphs" else f'backend="inductor", mode="{variant}"'
    return source + _COMPILED.format(options=options)


async def measure(
    pool: Pool, device: Device, work: Sequence[tuple[Task, str]], budget_s: float, at_once: int
) -> AsyncIterator[Measured]:
    """Each task in its variant, in the order in which they are done."""
    slots = asyncio.Semaphore(at_once)

    async def one(task: Task, variant: str) -> Measured:
        async with slots:
            return _measured(task, variant, await pool.evaluate(_request(task, variant, device, budget_s)))

    running = [asyncio.create_task(one(task, variant)) for task, variant in work]
    try:
        for done in asyncio.as_completed(running):
            yield await done
    finally:
        for waiting in running:
            waiting.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _request(task: Task, variant: str, device: Device, budget_s: float) -> Any:
    from kernel_env.server.outcome import EvaluationRequest, TaskSource

    return EvaluationRequest(
        id=uuid.uuid4().hex,
        task=TaskSource(id=task.id, source=task.source, hash=task.hash),
        language="cuda" if device.kind == "cuda" else "cpp",
        code=code_of(task.source, variant),
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
