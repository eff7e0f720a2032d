"""Each task's reference against itself, through the whole path: is the task well-posed on this device?

For tasks, never for submissions: the code is the task's own source, run without static checks and guard. A
reference that does not match itself, or whose speedup over itself is not one, is a fault of the task or of
the measurement. Rows come as they are done, a few at a time: while one is on the device, the processes of the
next are made.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from kernel_env.abreast import abreast

from .outcome import Device, Evaluation, EvaluationRequest, TaskSource
from .pool import Pool
from .tasks import Task

NARROW = 0.02


@dataclass(frozen=True)
class Row:
    """One task's audit. Times in ms and seconds, memory in bytes, `spread` half the speedup's interval.

    `host_ms` is what the host took to launch a call, `durations` is in seconds by stage.
    """

    task_id: str
    verdict: str
    message: str = ""
    speedup: float | None = None
    spread: float | None = None
    runtime_ms: float | None = None
    host_ms: float | None = None
    ref_host_ms: float | None = None
    t_min_ms: float | None = None
    samples: int | None = None
    clock: str | None = None
    launch_bound: bool | None = None
    peak_bytes: int | None = None
    seconds: float = 0.0
    durations: dict[str, float] = field(default_factory=dict)

    @property
    def one(self) -> bool:
        """Is the speedup one, within `NARROW`?"""
        return self.speedup is not None and abs(self.speedup - 1.0) <= NARROW


@dataclass(frozen=True)
class Summary:
    tasks: int
    passed: int
    timed: int
    one: int
    median_spread: float | None
    seconds: float


def audit(pool: Pool, device: Device, tasks: Sequence[Task], budget_s: float, at_once: int) -> AsyncIterator[Row]:
    """Rows in the order in which they are done."""

    async def one(task: Task) -> Row:
        started = time.monotonic()
        evaluation = await pool.evaluate(_request(task, device, budget_s))
        waited = evaluation.durations.get("queue", 0.0)
        return _row(task, evaluation, time.monotonic() - started - waited)

    return abreast((partial(one, task) for task in tasks), at_once)


def _request(task: Task, device: Device, budget_s: float) -> EvaluationRequest:
    source = TaskSource(id=task.id, source=task.source, hash=task.hash)
    return EvaluationRequest(
        id=f"audit-{task.id}",
        task=source,
        language="cuda" if device.kind == "cuda" else "cpp",
        code=source.as_submission,
        budget_s=budget_s,
        mode="audit",
    )


def _row(task: Task, evaluation: Evaluation, seconds: float) -> Row:
    outcome = evaluation.outcome
    if outcome.kind != "passed":
        message = getattr(outcome, "message", "")
        return Row(
            task.id,
            outcome.kind,
            message,
            peak_bytes=evaluation.peak_bytes,
            seconds=seconds,
            durations=evaluation.durations,
        )
    timing, roofline = outcome.timing, outcome.roofline
    return Row(
        task_id=task.id,
        verdict="passed",
        speedup=timing.speedup if timing else None,
        spread=(timing.high - timing.low) / 2 if timing else None,
        runtime_ms=timing.runtime_ms if timing else None,
        host_ms=timing.host_ms if timing else None,
        ref_host_ms=timing.ref_host_ms if timing else None,
        t_min_ms=roofline.t_min_ms if roofline else None,
        samples=timing.samples if timing else None,
        clock=timing.clock if timing else None,
        launch_bound=timing.launch_bound if timing else None,
        peak_bytes=evaluation.peak_bytes,
        seconds=seconds,
        durations=evaluation.durations,
    )


def summarize(rows: Sequence[Row], seconds: float) -> Summary:
    spreads = [row.spread for row in rows if row.spread is not None]
    return Summary(
        tasks=len(rows),
        passed=sum(row.verdict == "passed" for row in rows),
        timed=len(spreads),
        one=sum(row.one for row in rows),
        median_spread=statistics.median(spreads) if spreads else None,
        seconds=seconds,
    )
