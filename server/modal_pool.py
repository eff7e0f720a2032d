"""The pool on Modal: calls to the app's `Evaluator`, whose containers Modal starts and ends as the load asks.

Modal chooses the container of each call, so that all of them are one place here. A call is never repeated by
Modal; a fault of ours is tried once more, and then meets another container, as the first one has stopped to take
work (see `modal_host`). The pool is ready once a container has told what it is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

import modal
import modal.exception

from .config import Settings
from .fleet import CLOSED, Fleet, FleetPool, State
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .seat import STUCK_S
from .wake import Signal

APP = "kernel-env"
DESCRIBE_S = 600.0
AGAIN_S = 10.0
MARGIN_S = 15.0

_logger = logging.getLogger(__name__)


class Remote(Protocol):
    """The methods of `modal_app.Evaluator` as calls. A call that is cancelled ends at the other side as well."""

    async def describe(self) -> dict[str, Any]: ...

    async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]: ...


class Deployed:
    """`Remote`: the deployed app. Raises `modal.exception.Error`."""

    def __init__(self) -> None:
        self._evaluator = modal.Cls.from_name(APP, "Evaluator")()

    async def describe(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._evaluator.describe.remote.aio()
        return told

    async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]:
        call = await self._evaluator.evaluate.spawn.aio(request, waited_s, alone)
        try:
            evaluation: dict[str, Any] = await call.get.aio()
        except asyncio.CancelledError:
            await call.cancel.aio()
            raise
        return evaluation


class Containers:
    """All containers as one place of a fleet."""

    def __init__(self, remote: Remote, changed: Signal) -> None:
        self.state: State = "starting"
        self.device: Device | None = None
        self.message = "waits for a first container"
        self.submissions = 0
        self.sandbox: dict[str, dict[str, str]] = {}
        self._remote = remote
        self._changed = changed
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()

    async def keep(self) -> None:
        """Ask a container what it is until one has told."""
        while self.state == "starting":
            try:
                told = await asyncio.wait_for(self._remote.describe(), DESCRIBE_S)
                self.sandbox, self.device = told["sandbox"], Device.model_validate(told["device"])
                self._become("ready", "")
            except (modal.exception.Error, TimeoutError, RuntimeError) as error:
                self._become("starting", f"no container answers: {error or type(error).__name__}")
                await asyncio.sleep(AGAIN_S)

    async def evaluate(self, request: EvaluationRequest, waited_s: float, alone: bool) -> Evaluation:
        self.submissions += 1
        call = asyncio.create_task(self._remote.evaluate(request.model_dump(), waited_s, alone))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            async with asyncio.timeout(max(request.budget_s - waited_s, 0.0) + STUCK_S + MARGIN_S):
                await asyncio.wait({call})
            return Evaluation.model_validate(call.result())
        except TimeoutError:
            return self._fault("no container gave an answer within the step's time", retryable=False)
        except modal.exception.Error as error:
            return self._fault(f"the container that evaluated this was lost: {error}", retryable=True)
        except asyncio.CancelledError:
            if call.cancelled() and self.state == "failed":  # by `retire`, not by who waits for this
                return self._fault(self.message, retryable=False)
            raise
        finally:
            self.submissions -= 1
            call.cancel()

    async def stage(self, request_id: str) -> str:
        """Modal tells of a call only that it runs."""
        return ""

    def retire(self, reason: str) -> None:
        self._become("failed", reason)
        for call in self._calls:
            call.cancel()

    async def left(self) -> None:
        """Wait, within a bound, until calls that were cancelled have told the other side."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=MARGIN_S)

    def health(self) -> dict[str, Any]:
        return {
            "index": "",
            "state": self.state,
            "name": self.device.name if self.device else None,
            "submissions": self.submissions,
            "message": self.message,
            "sandbox": self.sandbox,
        }

    def _fault(self, reason: str, retryable: bool) -> Evaluation:
        device = self.device or Device(kind="cuda", name="not started")
        return Evaluation(outcome=Infrastructure(message=reason, retryable=retryable), device=device)

    def _become(self, state: State, message: str) -> None:
        if message and message != self.message:
            _logger.warning("%s", message)
        self.state, self.message = state, message
        self._changed.set()


class ModalPool(FleetPool):
    """See `pool.Pool` for the contract."""

    def __init__(self, settings: Settings, remote: Remote | None = None) -> None:
        super().__init__(Fleet("cpu" if settings.evaluator == "cpu" else "cuda", fixed=True))
        self._containers = Containers(remote or Deployed(), self._fleet.changed)
        self._fleet.places = [self._containers]
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._containers.keep())

    async def close(self) -> None:
        self._fleet.close()
        self._containers.retire(CLOSED)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._containers.left()
