"""A started pool of this host, and a submission's way through it.

Tests of how a pool starts and ends use `LocalPool` itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Evaluation, EvaluationRequest, TaskSource
from kernel_env.server.pool import Pool

from .submissions import TASK

BUDGET_S = 280.0
"""Queueing included: less than pytest leaves a test, so that the outcome is told."""


@asynccontextmanager
async def started(settings: Settings, ready_s: float = 180.0) -> AsyncIterator[LocalPool]:
    """The pool as soon as a device can evaluate; closed in the end, whatever happens.

    Raises RuntimeError with the pool's health where none can within `ready_s` seconds.
    """
    pool = LocalPool(settings)
    try:
        await pool.start()
        if await pool.ready(ready_s) is None:
            raise RuntimeError(f"no worker came up: {pool.health()}")
        yield pool
    finally:
        await pool.close()


async def evaluated(
    pool: Pool,
    code: str,
    *,
    task: str = TASK,
    task_id: str = "user/task",
    language: str = "triton",
    mode: Literal["submission", "unchecked", "audit"] = "submission",
    budget_s: float = BUDGET_S,
) -> Evaluation:
    """What becomes of `code`, a submission for the task whose source is `task`."""
    source = TaskSource(id=task_id, source=task, hash=hashlib.sha256(task.encode()).hexdigest())
    request = EvaluationRequest(
        id=os.urandom(8).hex(), task=source, language=language, code=code, budget_s=budget_s, mode=mode
    )
    return await pool.evaluate(request)
