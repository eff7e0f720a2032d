"""The pool on this host: one worker process for each device, the least busy one takes the next submission.

A worker that dies is started again with a growing pause; after `START_TRIES` failures in a row its device is
given up, and the pool fails when none is left. Evaluations that a dying worker loses are infrastructure
faults; those are tried once more, on another device where there is one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from .child import Child, StartFailed
from .config import Settings
from .folders import remove
from .frames import FrameError
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .peaks import known, supply, unknown
from .sandbox import trusted_environment

START_TRIES = 3
START_S = 150.0
PAUSE_S = 1.0
FOLDER_PREFIX = "kernel-env-"

DeviceKind = Literal["cuda", "cpu"]

_logger = logging.getLogger(__name__)


class LocalPool:
    """See `pool.Pool` for the contract."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        kind = device_kind(settings)
        indices = (settings.gpus or visible_gpus()) if kind == "cuda" else ("0",)
        self._changed = Signal()
        self._seats = [_Seat(settings, kind, index, self._changed) for index in indices]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if not self._tasks:
            await asyncio.to_thread(_sweep)
            self._tasks = [asyncio.create_task(seat.keep()) for seat in self._seats]

    async def ready(self, timeout_s: float) -> Device | None:
        try:
            async with asyncio.timeout(timeout_s):
                while all(seat.device is None for seat in self._seats):
                    if all(seat.state == "failed" for seat in self._seats):
                        return None
                    await self._changed.wait()
        except TimeoutError:
            return None
        return next(seat.device for seat in self._seats if seat.device is not None)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        seat = self._choose()
        evaluation = await seat.evaluate(request)
        outcome = evaluation.outcome
        if isinstance(outcome, Infrastructure) and outcome.retryable:
            other = self._choose(avoid=seat)
            again = request.model_copy(update={"id": f"{request.id}-again"})
            evaluation = await other.evaluate(again)
        return evaluation

    def health(self) -> dict[str, Any]:
        states = [seat.state for seat in self._seats]
        state = next((s for s in ("ready", "starting") if s in states), "failed")
        devices = [seat.health() for seat in self._seats]
        return {
            "state": state,
            "devices": devices,
            "queued": sum(max(len(seat.waiting) - 1, 0) for seat in self._seats),
            "running": sum(min(len(seat.waiting), 1) for seat in self._seats),
            "message": "; ".join(seat.message for seat in self._seats if seat.message),
        }

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def _choose(self, avoid: _Seat | None = None) -> _Seat:
        """The ready device with the fewest submissions; any other where none is ready."""
        order = {"ready": 0, "starting": 1, "failed": 2}
        return min(self._seats, key=lambda seat: (seat is avoid, order[seat.state], len(seat.waiting)))


class Signal:
    """Wakes everyone who waits at the moment it is set."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


@dataclass
class _Seat:
    """One device and the worker process that serves it now."""

    settings: Settings
    kind: DeviceKind
    index: str
    changed: Signal
    state: Literal["starting", "ready", "failed"] = "starting"
    device: Device | None = None
    message: str = ""
    waiting: dict[str, asyncio.Future[Evaluation]] = field(default_factory=dict)
    restarts: int = 0
    _worker: Child | None = None

    async def keep(self) -> None:
        """Keep a worker running until cancelled."""
        failures = 0
        while failures < START_TRIES:
            try:
                await self._serve()
                failures = 0
            except StartFailed as error:
                failures += 1
                self._become("starting", str(error))
            self.restarts += 1
            await asyncio.sleep(PAUSE_S * 2**failures)
        self._become("failed", self.message)
        self._lose(f"no worker could be started: {self.message}", retryable=False)

    async def _serve(self) -> None:
        folder = tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-")
        try:
            await self._serve_in(folder)
        finally:
            await asyncio.shield(asyncio.to_thread(remove, folder))

    async def _serve_in(self, folder: str) -> None:
        config = json.dumps({**self._config(), "folder": folder})
        worker = await Child.start("worker", [config], trusted_environment({}), folder, START_S)
        try:
            if "failed" in worker.hello:
                raise StartFailed(str(worker.hello["failed"]))
            self._worker, self.device = worker, Device.model_validate(worker.hello["device"])
            self._become("ready", "")
            self._warn(self.device.name)
            while True:
                self._settle(await worker.stream.receive())
        except FrameError:
            self._become("starting", "the worker ended and is started again")
        finally:
            self._worker = None
            await asyncio.shield(worker.stop())
            self._lose("the worker that evaluated this submission ended", retryable=True)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """The worker's answer; waits for a worker that is starting, within the request's budget."""
        answer: asyncio.Future[Evaluation] = asyncio.get_running_loop().create_future()
        self.waiting[request.id] = answer
        try:
            async with asyncio.timeout(request.budget_s + 30.0):
                await self._submit(request)
                return await answer
        except TimeoutError:
            # The worker answers within the budget whatever happens to its own processes: it is stuck itself.
            if self._worker is not None:
                self._worker.kill()
            return self._fault("the device gave no answer within the step's time", retryable=False)
        except FrameError as error:
            return self._fault(str(error), retryable=True)
        finally:
            self.waiting.pop(request.id, None)
            if not answer.done() or answer.cancelled():
                await self._cancel(request.id)

    async def _submit(self, request: EvaluationRequest) -> None:
        while self._worker is None:
            if self.state == "failed":
                raise FrameError(self.message or "this device is given up")
            await self.changed.wait()
        await self._worker.stream.send({"op": "evaluate", "request": request.model_dump()})

    async def _cancel(self, request_id: str) -> None:
        if self._worker is not None:
            with suppress(FrameError):
                await self._worker.stream.send({"op": "cancel", "id": request_id})

    def _settle(self, message: dict[str, Any]) -> None:
        answer = self.waiting.get(message["id"])
        if answer is None or answer.done():
            return
        if "evaluation" in message:
            answer.set_result(Evaluation.model_validate(message["evaluation"]))
        elif "fault" in message:
            answer.set_result(self._fault(message["fault"], retryable=True))

    def _lose(self, reason: str, retryable: bool) -> None:
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_result(self._fault(reason, retryable))

    def _fault(self, reason: str, retryable: bool) -> Evaluation:
        device = self.device or Device(kind=self.kind, name="not started", index=self.index)
        return Evaluation(outcome=Infrastructure(message=reason, retryable=retryable), device=device)

    def _become(self, state: Literal["starting", "ready", "failed"], message: str) -> None:
        self.state, self.message = state, message
        self.changed.set()

    def _config(self) -> dict[str, Any]:
        names = [
            "trials",
            "atol",
            "rtol",
            "max_code_bytes",
            "build_timeout_s",
            "correctness_timeout_s",
            "timing_timeout_s",
            "timing_budget_s",
            "roofline_reject",
        ]
        values = {name: getattr(self.settings, name) for name in names}
        values["peaks"] = supply(self.settings.peaks)
        return {"device": self.kind, "index": self.index, **values}

    def _warn(self, name: str) -> None:
        if self.settings.reward == "roofline" and known(name, supply(self.settings.peaks)) is None:
            _logger.warning("%s; every correct submission gets the reward 0.3", unknown(name))

    def health(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "state": self.state,
            "name": self.device.name if self.device else None,
            "submissions": len(self.waiting),
            "restarts": self.restarts,
            "message": self.message,
        }


def _sweep() -> None:
    """Remove the folders of servers that were killed."""
    for entry in os.scandir(tempfile.gettempdir()):
        match = re.fullmatch(rf"{FOLDER_PREFIX}(\d+)-\w+", entry.name)
        if match and not os.path.exists(f"/proc/{match[1]}") and entry.stat().st_uid == os.getuid():
            remove(entry.path)


def device_kind(settings: Settings) -> DeviceKind:
    """What `settings.evaluator` means on this machine; "auto" takes a GPU whose driver is present."""
    if settings.evaluator == "gpu":
        return "cuda"
    if settings.evaluator == "auto" and visible_gpus():
        return "cuda"
    return "cpu"


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


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
