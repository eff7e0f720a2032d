"""One device of a Ray cluster as the pool sees it: its actor, and what the actor last told.

The actor is pinned to its node, is restarted by Ray, and its calls are never repeated by Ray. A device whose actor
fails `TRIES` times in a row, or refuses, is given up until its node joins anew. Every wait ends with the request's
budget, a fixed time after it, or with the node.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernel_env import __version__

from .config import Settings
from .cores import builds
from .fleet import State
from .host import WATCH_S
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .ray_host import RayHost
from .seat import STUCK_S, DeviceKind
from .wake import Signal

TRIES = 3
PAUSE_S = 1.0
SILENT_S = 30.0
STAGE_S = 2.0
TEXT_CAP = 600
MARGIN_S = 15.0
"""Beyond what the actor's own seat takes to find its worker stuck."""

_logger = logging.getLogger(__name__)


@dataclass
class RaySeat:
    """`cpus`: the host's cores that go with the device. `welcome` says why a device may not take part, or ""."""

    settings: Settings
    kind: DeviceKind
    node: str
    where: str
    cpus: float
    changed: Signal
    welcome: Callable[[RaySeat, Device], str]
    state: State = "starting"
    device: Device | None = None
    message: str = ""
    submissions: int = 0
    restarts: int = 0
    sandbox: dict[str, dict[str, str]] = field(default_factory=dict)
    _actor: Any = None
    _asked: set[str] = field(default_factory=set)
    _failures: int = 0

    async def keep(self) -> None:
        """Keep an actor on the device until cancelled or given up."""
        try:
            while self.state != "failed":
                try:
                    self._actor = self._actor or self._create()
                    await self._follow(self._actor)
                except RayError as error:
                    await self._stumble(error)
        finally:
            self._end()

    async def evaluate(self, request: EvaluationRequest, waited_s: float, alone: bool) -> Evaluation:
        """The actor's answer, or a fault of ours where it has gone."""
        self.submissions += 1
        self._asked.add(request.id)
        call = self._actor.evaluate.remote(request.model_dump(), waited_s, alone) if self._actor else None
        done = False
        try:
            if call is None:
                return self._fault(self.message, retryable=True)
            async with asyncio.timeout(max(request.budget_s - waited_s, 0.0) + STUCK_S + MARGIN_S):
                evaluation = Evaluation.model_validate(await call)
            done = True
            return evaluation
        except TimeoutError:
            return self._fault(f"{self.where} gave no answer within the step's time", retryable=False)
        except RayError as error:
            done = True
            if not isinstance(error, RayTaskError):  # one call's failure says nothing about the actor
                self._become("starting", f"{self.where} was lost")
            return self._fault(f"{self.where} was lost while it evaluated this: {_told(error)}", retryable=True)
        finally:
            self.submissions -= 1
            self._asked.discard(request.id)
            if call is not None and not done:
                ray.cancel(call, recursive=False)

    async def stage(self, request_id: str) -> str:
        """Asked of the actor only when somebody watches."""
        if self._actor is None or request_id not in self._asked:
            return ""
        try:
            return str(await asyncio.wait_for(self._actor.stage.remote(request_id), STAGE_S))
        except (TimeoutError, RayError):
            return ""

    def retire(self, reason: str) -> None:
        """Take no more submissions and end the actor: those that it has come back as faults of ours."""
        self._become("failed", reason)
        self._end()

    def health(self) -> dict[str, Any]:
        return {
            "index": self.device.index if self.device else "",
            "node": self.where,
            "uuid": self.device.uuid if self.device else None,
            "state": self.state,
            "name": self.device.name if self.device else None,
            "submissions": self.submissions,
            "restarts": self.restarts,
            "message": self.message,
            "sandbox": self.sandbox,
        }

    def _create(self) -> Any:
        gpus = 1 if self.kind == "cuda" else 0
        self._become("starting", f"waits for Ray to place {gpus} GPU and {self.cpus:g} CPU on {self.where}")
        actor = ray.remote(RayHost).options(
            num_gpus=gpus,
            num_cpus=self.cpus,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.node, soft=False),
        )
        return actor.remote(self.settings, self.kind, builds(int(self.cpus)) if self.cpus else 0)

    async def _follow(self, actor: Any) -> None:
        """Take over what the actor tells, until it has failed for good. Raises `RayError`."""
        known: dict[str, Any] | None = None
        while self.state != "failed":
            told: dict[str, Any]
            try:
                # A first answer takes until Ray has room; later ones are due.
                told = await asyncio.wait_for(actor.watch.remote(known), WATCH_S + SILENT_S if known else None)
            except TimeoutError:
                _logger.error("%s is silent: its actor is ended", self.where)
                ray.kill(actor, no_restart=False)
                continue
            self._hear(told)
            known = told

    def _hear(self, told: dict[str, Any]) -> None:
        self.sandbox = told["sandbox"]
        self.device = Device.model_validate(told["device"]) if told["device"] else None
        state, message = told["state"], told["message"]
        if told["version"] != __version__:
            return self.retire(f"{self.where} has kernel_env {told['version']}, this server {__version__}")
        if told["refused"]:
            return self.retire(message)
        if state == "ready" and self.device is not None:
            self._failures = 0
            if reason := self.welcome(self, self.device):
                return self.retire(reason)
        # A host that has failed is about to end itself, and to be started anew.
        self._become("starting" if state == "failed" else state, message)
        return None

    async def _stumble(self, error: RayError) -> None:
        self.restarts += 1
        self._failures += 1
        if self.state == "failed":
            return
        reason = f"{self.message}; {_told(error)}" if self.message else _told(error)
        if self._failures >= TRIES:
            _logger.error("%s is given up: %s", self.where, reason)
            self.retire(f"given up after {TRIES} tries: {reason}")
            return
        if isinstance(error, ActorDiedError):  # and not to be restarted: it could not be made, or was ended
            self._end()
        self._become("starting", reason)
        await asyncio.sleep(PAUSE_S * 2**self._failures)

    def _end(self) -> None:
        actor, self._actor = self._actor, None
        if actor is not None and ray.is_initialized():
            ray.kill(actor)

    def _fault(self, reason: str, retryable: bool) -> Evaluation:
        device = self.device or Device(kind=self.kind, name="not started")
        return Evaluation(outcome=Infrastructure(message=reason, retryable=retryable), device=device)

    def _become(self, state: State, message: str) -> None:
        self.state, self.message = state, message
        self.changed.set()


def _told(error: RayError) -> str:
    """Its name, first line, and last, where an actor's own error stands; Ray's texts are long and coloured."""
    lines = [line.strip() for line in re.sub(r"\x1b\[\d*m", "", str(error)).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *dict.fromkeys([*lines[:1], *lines[-1:]])])[:TEXT_CAP]
