"""The pool on this host: one worker process for each device, the least busy one takes the next submission.

Evaluations that were lost to a fault of ours are tried once more, on another device where there is one, and alone
there, as they may be the cause; the budget goes on counting. How a device's worker is kept is for `seat` to know.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from typing import Any

from . import landlock
from .config import Settings
from .folders import sweep
from .kernel import close_to_others
from .layers import weakest
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .seat import DeviceKind, Seat
from .wake import Signal

_logger = logging.getLogger(__name__)


class LocalPool:
    """See `pool.Pool` for the contract."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        kind = device_kind(settings)
        indices = (settings.gpus or visible_gpus()) if kind == "cuda" else ("0",)
        self._changed = Signal()
        self._seats = [Seat(settings, kind, index, self._changed) for index in indices]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if not self._tasks:
            if self._settings.sandbox != "off" and not landlock.abi():
                close_to_others()  # Landlock does the same
            await asyncio.to_thread(sweep)
            self._tasks = [asyncio.create_task(seat.keep()) for seat in self._seats]

    async def ready(self, timeout_s: float) -> Device | None:
        try:
            async with asyncio.timeout(timeout_s):
                while live := [seat for seat in self._seats if seat.state != "failed"]:
                    known = [seat.device for seat in live if seat.device is not None]
                    if known:
                        return known[0]
                    await self._changed.wait()
        except TimeoutError:
            return None
        return None

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        arrived = time.monotonic()
        seat = self._choose()
        evaluation = await seat.evaluate(request, 0.0, alone=False)
        first = evaluation.outcome
        if not isinstance(first, Infrastructure) or not first.retryable:
            return evaluation
        again = request.model_copy(update={"id": f"{request.id}-again"})
        waited_s = time.monotonic() - arrived
        evaluation = await self._choose(avoid=seat).evaluate(again, waited_s, alone=True)
        evaluation = _twice(evaluation, first)
        if evaluation.outcome.kind == "infrastructure":
            _logger.warning("submission %s: %s", request.id, evaluation.outcome.message)
        return evaluation

    def health(self) -> dict[str, Any]:
        states = [seat.state for seat in self._seats]
        state = next((s for s in ("ready", "starting") if s in states), "failed")
        devices = [seat.health() for seat in self._seats]
        return {
            "state": state,
            "devices": devices,
            "queued": sum(max(seat.submissions - 1, 0) for seat in self._seats),
            "running": sum(min(seat.submissions, 1) for seat in self._seats),
            "sandbox": weakest(seat.sandbox for seat in self._seats if seat.sandbox),
            "message": "; ".join(seat.message for seat in self._seats if seat.message),
        }

    async def close(self) -> None:
        """Whoever waits for an evaluation, now or later, is told at once."""
        for seat in self._seats:
            seat.retire("the pool is closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def _choose(self, avoid: Seat | None = None) -> Seat:
        """The ready device with the fewest submissions; any other where none is ready."""
        order = {"ready": 0, "starting": 1, "failed": 2}
        return min(self._seats, key=lambda seat: (seat is avoid, order[seat.state], seat.submissions))


def _twice(evaluation: Evaluation, first: Infrastructure) -> Evaluation:
    """No third time: what is lost even while it has a worker to itself may well be the cause."""
    second = evaluation.outcome
    if not isinstance(second, Infrastructure):
        return evaluation
    reasons = "; ".join(dict.fromkeys([first.message, second.message]))
    message = f"tried twice, the second time alone on its device: {reasons}"
    outcome = second.model_copy(update={"message": message, "retryable": False})
    return evaluation.model_copy(update={"outcome": outcome})


def device_kind(settings: Settings) -> DeviceKind:
    """What `settings.evaluator` means on this machine; "auto" takes a GPU whose driver is present."""
    if settings.evaluator == "gpu":
        return "cuda"
    if settings.evaluator == "auto" and visible_gpus():
        return "cuda"
    return "cpu"


def visible_gpus() -> tuple[str, ...]:
    """The devices this process may use, found without creating a context or importing torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(part.strip() for part in chosen.split(",") if part.strip() and part.strip() != "-1")
    try:
        nodes = os.listdir("/dev")
    except OSError:
        return ()
    return tuple(sorted((n[6:] for n in nodes if re.fullmatch(r"nvidia\d+", n)), key=int))
