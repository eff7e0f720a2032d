"""Evaluations of a run: each program once, however many nodes have it; faults of the evaluator tried again.

Number 0 of a program is its first evaluation, 1 and above confirm it. What is known from the journal is not
evaluated again; what is new is on the disk before anyone sees it.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from .errors import ConfigError, EvaluatorError
from .evaluator import BaseEvaluator, measure
from .journal import Journal
from .memory import Memory
from .metrics import Metrics, failed
from .redact import Redactor

ATTEMPTS = 3
BETWEEN_S = 1.0


@dataclass(frozen=True)
class Limits:
    at_once: int
    timeout_s: float


class Bench:
    def __init__(
        self,
        evaluator: BaseEvaluator,
        initial_code: str,
        memory: Memory,
        journal: Journal,
        redact: Redactor,
        limits: Limits,
        told: Callable[[int], None],
    ) -> None:
        """`told(1)` is called before and `told(-1)` after what really runs."""
        self._evaluator = evaluator
        self._initial_code = initial_code
        self._memory = memory
        self._journal = journal
        self._redact = redact
        self._timeout_s = limits.timeout_s
        self._slots = asyncio.Semaphore(limits.at_once)
        self._told = told
        self._running: dict[tuple[str, int], asyncio.Task[Metrics]] = {}

    async def evaluate(self, program: str, code: str, number: int = 0) -> Metrics:
        """Metrics with `infrastructure` where the evaluator failed each time. Raises `EvaluatorError` where it is
        of no use, and `ConfigError`."""
        known = self._memory.evaluation(program, number)
        if known is not None:
            return known
        task = self._running.get((program, number))
        if task is None:
            task = asyncio.create_task(self._evaluate(program, code, number))
            self._running[program, number] = task
        # One of several nodes with this program may be given up; the others still want the result.
        return await asyncio.shield(task)

    def forget(self, program: str) -> None:
        """A program that got no verdict may be evaluated again."""
        self._running.pop((program, 0), None)

    async def stop(self) -> None:
        """End what runs."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _evaluate(self, program: str, code: str, number: int) -> Metrics:
        async with self._slots:
            self._told(1)
            try:
                metrics = await self._tried(code)
            finally:
                self._told(-1)
        # A first evaluation without a verdict is told by its node; one that confirms is decided on at once.
        if number or not metrics.infrastructure:
            self._journal.write(
                "evaluation", durable=True, program=program, number=number, metrics=metrics.to_dict()
            )
        return metrics

    async def _tried(self, code: str) -> Metrics:
        metrics = failed("not evaluated", "infrastructure", infrastructure=True)
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(BETWEEN_S)
            metrics = self._checked(await self._once(code))
            if not metrics.infrastructure:
                break
        return metrics

    async def _once(self, code: str) -> Metrics:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await measure(self._evaluator, self._initial_code, code)
        except TimeoutError:
            reason = f"no verdict within {self._timeout_s:g} s"
        except (ConfigError, EvaluatorError):
            raise
        # The boundary to code of the user's: whatever their evaluator raises is its fault.
        except Exception as error:
            reason = "".join(traceback.format_exception_only(error)).strip()
        return failed(f"the evaluator failed: {reason}", "infrastructure", infrastructure=True)

    def _checked(self, metrics: Metrics) -> Metrics:
        """Texts without secrets; a result that can't be true is quarantined."""
        for name in ("error", "traceback", "feedback", "quarantine"):
            value = getattr(metrics, name)
            setattr(metrics, name, None if value is None else self._redact(str(value)))
        if metrics.correct:
            metrics.quarantine = _impossible(metrics)
        return metrics


def _impossible(metrics: Metrics) -> str | None:
    """Why the numbers can't be true, for evaluators that do not look themselves."""
    if math.isinf(metrics.speedup):
        return "the speedup is infinite"
    if metrics.timed and metrics.optimized_time <= 0.0:
        return f"a call took {metrics.optimized_time:g} {metrics.unit}"
    return None
