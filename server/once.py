"""The same request is evaluated once: who asks for it again meanwhile, or soon after, gets the one evaluation.

Requests are the same by id and content; how long one may take is no part of it. An evaluation goes on while anyone
waits for it and is abandoned with the last. What ended as a fault of ours says nothing and is not kept. Memory is
bounded by `KEPT`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from .outcome import Evaluation, EvaluationRequest

KEPT = 256


@dataclass
class _Running:
    task: asyncio.Task[Evaluation]
    waiting: int = 0


class Once:
    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._kept: dict[str, Evaluation] = {}

    async def run(
        self, request: EvaluationRequest, work: Callable[[EvaluationRequest], Coroutine[Any, Any, Evaluation]]
    ) -> Evaluation:
        """`work`'s evaluation, or the one that there is."""
        key = hashlib.sha256(request.model_copy(update={"budget_s": 0.0}).model_dump_json().encode()).hexdigest()
        if key in self._kept:
            return self._kept[key]
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _Running(asyncio.create_task(work(request)))
            running.task.add_done_callback(lambda task: self._settle(key, task))
        running.waiting += 1
        try:
            await asyncio.wait({running.task})
            return running.task.result()
        finally:
            running.waiting -= 1
            if not running.waiting and not running.task.done():
                self._running.pop(key, None)  # whoever comes now begins anew
                running.task.cancel()
                await asyncio.wait({running.task})

    def _settle(self, key: str, task: asyncio.Task[Evaluation]) -> None:
        if (running := self._running.get(key)) is not None and running.task is task:
            del self._running[key]
        if task.cancelled() or task.exception() is not None or task.result().outcome.kind == "infrastructure":
            return
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = task.result()
