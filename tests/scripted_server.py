"""A server whose evaluator does what a comment in the submission says: the mock's answers, late or wrong.

`python scripted_server.py` reads settings from the environment as any server, and DEVICE ("mock", "cpu",
"cuda", "" for one that never gets ready) beside them. The first line of a submission may be
`# script {"sleep": seconds, "stage": name, "fail": true, "raise": true, "speedup": number}`.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from kernel_env.server.app import serve
from kernel_env.server.config import Settings
from kernel_env.server.mock import MockPool
from kernel_env.server.outcome import Device, Evaluation, EvaluationRequest, Infrastructure, Passed


class ScriptedPool:
    """A pool around the mock's; counts what starts, ends and is cancelled."""

    def __init__(self, settings: Settings, kind: str) -> None:
        self._mock = MockPool(settings)
        self._device = Device.model_validate({"kind": kind, "name": "scripted"}) if kind else None
        self._stages: dict[str, str] = {}
        self._counts = {"started": 0, "finished": 0, "cancelled": 0}

    async def start(self) -> None:
        await self._mock.start()

    async def ready(self, timeout_s: float) -> Device | None:
        return self._device

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        first = request.code.partition("\n")[0]
        words = json.loads(first.removeprefix("# script")) if first.startswith("# script") else {}
        self._counts["started"] += 1
        try:
            self._stages[request.id] = words.get("stage", "")
            await asyncio.sleep(words.get("sleep", 0.0))
        except asyncio.CancelledError:
            self._counts["cancelled"] += 1
            raise
        finally:
            del self._stages[request.id]
        self._counts["finished"] += 1
        if words.get("raise"):
            raise RuntimeError("a bug under /srv/secret/folder/module.py")
        evaluation = await self._mock.evaluate(request)
        if words.get("fail"):
            return evaluation.model_copy(update={"outcome": Infrastructure(message="the device is gone")})
        return _with_speedup(evaluation, words.get("speedup"))

    async def stage(self, request_id: str) -> str:
        return self._stages.get(request_id, "")

    def health(self) -> dict[str, Any]:
        state = "ready" if self._device else "starting"
        running = self._counts["started"] - self._counts["finished"] - self._counts["cancelled"]
        devices = [{"index": "0", "counts": dict(self._counts)}]
        return {"state": state, "devices": devices, "queued": 0, "running": running, "message": "see /srv/a/b.log"}

    async def close(self) -> None:
        await self._mock.close()


def _with_speedup(evaluation: Evaluation, speedup: str | float | None) -> Evaluation:
    """`speedup` may also be "nan" or "inf", or "none" for a device that cannot time."""
    outcome = evaluation.outcome
    if speedup is None or not isinstance(outcome, Passed) or outcome.timing is None:
        return evaluation
    timing = None if speedup == "none" else outcome.timing.model_copy(update={"speedup": float(speedup)})
    return evaluation.model_copy(update={"outcome": outcome.model_copy(update={"timing": timing})})


if __name__ == "__main__":
    settings = Settings.from_env()
    serve(settings, pool=ScriptedPool(settings, os.environ.get("DEVICE", "mock")))
