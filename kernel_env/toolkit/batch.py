"""Many submissions, as many at a time as the evaluator takes; each ends judged or, with its reason, not.

A fault of the environment is tried again, `TRIES` times in all, and never becomes a verdict. When `LOST_IN_A_ROW`
submissions one after the other were lost, the rest is left for a later run. Results come in the order in
which they are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from kernel_env.abreast import abreast

from .attempt import Attempt, observed
from .evaluators import Evaluator, EvaluatorError, Fault
from .folder import Sample

TRIES = 3
PAUSE_S = 1.0
LOST_IN_A_ROW = 8


@dataclass(frozen=True)
class Work:
    """One submission to judge."""

    sample: Sample
    task_id: str
    language: str
    code: str


@dataclass(frozen=True)
class Unjudged:
    """Nothing was learned of this one. `lost`: by a fault that another try may not meet, and not of its task."""

    sample: Sample
    task_id: str
    reason: str
    lost: bool = False


async def judge(
    evaluator: Evaluator, work: Sequence[Work], pause_s: float = PAUSE_S
) -> AsyncIterator[Attempt | Unjudged]:
    """Raises `EvaluatorError` when nothing more can be judged; what was yielded before stands."""
    calls = (partial(_judged, evaluator, item, pause_s) for item in work)
    lost = 0
    async with aclosing(abreast(calls, evaluator.at_once)) as results:
        async for result in results:
            yield result
            if not isinstance(result, Unjudged):
                lost = 0
            elif result.lost:
                lost += 1
                if lost >= LOST_IN_A_ROW:
                    raise EvaluatorError(f"{lost} submissions in a row could not be judged: {result.reason}")


async def _judged(evaluator: Evaluator, item: Work, pause_s: float) -> Attempt | Unjudged:
    reason, lost = "", False
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(pause_s * attempt)
        try:
            seen = await evaluator.evaluate(item.task_id, item.language, item.code)
        except Fault as fault:
            reason, lost = str(fault), fault.again
            if not lost:
                break
        else:
            found = observed({**seen, "task_id": item.task_id}, item.sample.number)
            return replace(
                found,
                level=item.sample.level,
                problem=item.sample.problem,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
            )
    return Unjudged(item.sample, item.task_id, reason, lost)
