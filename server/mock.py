"""The mock evaluator: real static checks, then timings made up from the text. For machines without torch.

Deterministic: the same task and code always get the same numbers. Nothing is built or run, so every
submission that passes the checks counts as correct; the clock and the device say `mock`.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import re
import time
from typing import Any

from .checks import check
from .config import Settings
from .fleet import CLOSED
from .once import Once
from .outcome import (
    Device,
    Evaluation,
    EvaluationRequest,
    Infrastructure,
    KernelProfile,
    Outcome,
    Passed,
    Profile,
    Roofline,
    TaskSource,
    Timing,
)

CHECKS_AT_ONCE = 2
_KERNELS = 8
_KERNEL = re.compile(r"(?:__global__\s+void|@triton\.jit\s+def)\s+(\w+)")
NOTE = "The mock evaluator ran nothing: whether the result is right is not known, and the times are fake."


class MockPool:
    """See `pool.Pool` for the contract."""

    def __init__(self, settings: Settings) -> None:
        self._max_code_bytes = settings.max_code_bytes
        self._profile = settings.profile
        self._device = Device(kind="mock", name="mock", versions={"python": platform.python_version()})
        self._slots = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._waiting = 0
        self._running: list[str] = []
        self._closed = False
        self._once = Once()

    async def start(self) -> None:
        return None

    async def ready(self, timeout_s: float) -> Device | None:
        return None if self._closed else self._device

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        return await self._once.run(request, self._evaluate)

    async def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        arrived = time.monotonic()
        if self._closed:
            return Evaluation(outcome=Infrastructure(message=CLOSED, retryable=False), device=self._device)
        self._waiting += 1
        try:
            async with asyncio.timeout(request.budget_s), self._slots:
                begun = time.monotonic()
                outcome = await self._check(request)
        except TimeoutError:
            outcome, begun = Infrastructure(message="no answer within the step's time", retryable=False), arrived
        finally:
            self._waiting -= 1
        durations = {"queue": begun - arrived, "checks": time.monotonic() - begun}
        return Evaluation(
            outcome=outcome,
            device=self._device,
            durations=durations,
            task_hash=request.task.hash,
            code_hash=hashlib.sha256(request.code.encode()).hexdigest()[:16],
            seeds_digest="mock",
        )

    async def _check(self, request: EvaluationRequest) -> Outcome:
        self._running.append(request.id)
        try:
            fault = await asyncio.to_thread(check, request.code, request.language, self._max_code_bytes)
        finally:
            self._running.remove(request.id)
        if fault is not None:
            return fault
        passed = fake(request.task, request.code)
        return passed.model_copy(update={"profile": fake_profile(request.code)}) if self._profile else passed

    async def stage(self, request_id: str) -> str:
        return "checks" if request_id in self._running else ""

    def health(self) -> dict[str, Any]:
        return {
            "state": "failed" if self._closed else "ready",
            "devices": [{"index": "0", "state": "ready", "name": self._device.name}],
            "queued": self._waiting - len(self._running),
            "running": len(self._running),
            "message": CLOSED if self._closed else "",
        }

    async def close(self) -> None:
        self._closed = True


def fake(task: TaskSource, code: str) -> Passed:
    """Made-up times for `code`: a speedup from 0.5 to 4, on a reference of 0.1 to 10 ms."""
    reference_ms = 10.0 ** (2.0 * _fraction(task.hash, "reference") - 1.0)
    speedup = 2.0 ** (3.0 * _fraction(task.hash, code) - 1.0)
    runtime_ms = reference_ms / speedup
    timing = Timing(
        runtime_ms=runtime_ms,
        ref_runtime_ms=reference_ms,
        speedup=speedup,
        low=speedup * 0.98,
        high=speedup * 1.02,
        samples=100,
        clock="mock",
    )
    roofline = Roofline(bound="memory", arithmetic_intensity=0.25, t_min_ms=reference_ms / 5.0)
    return Passed(timing=timing, roofline=roofline, note=NOTE)


def fake_profile(code: str) -> Profile:
    """Made-up times, alike for all kernels that the text has."""
    names = list(dict.fromkeys(_KERNEL.findall(code)))[:_KERNELS] or ["kernel"]
    kernels = [
        KernelProfile(name=name, origin="text", launches=1.0, ms=1.0, share=1.0 / len(names)) for name in names
    ]
    busy_ms = float(len(names))
    return Profile(
        kernels=kernels,
        others=0.0,
        others_ms=0.0,
        launches=busy_ms,
        busy_ms=busy_ms,
        runtime_ms=busy_ms,
        bytes=0,
        flops=0,
        gb_s=0.0,
        tflop_s=0.0,
    )


def _fraction(*texts: str) -> float:
    """A number in [0, 1) that follows from `texts`."""
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    return int.from_bytes(digest[:6], "big") / float(1 << 48)
