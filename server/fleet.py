"""Places that evaluate, which may come and go: the ready one with the fewest submissions takes the next.

Evaluations that were lost to a fault of ours are tried once more, at another place where one is ready, and alone
there, as they may be the cause; the budget goes on counting. While no place is ready, submissions wait here. What
a place is (a process of this host, an actor on another) is for the pools to know.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from .layers import weakest
from .once import Once
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .wake import Signal

CLOSED = "the pool is closed"

State = Literal["starting", "ready", "failed"]

_logger = logging.getLogger(__name__)


class Unavailable(RuntimeError):
    """Nothing will evaluate this; the text says why."""


class Place(Protocol):
    """One device. `message` says why it is not ready; `sandbox` is that of `layers.Report.json`."""

    state: State
    device: Device | None
    message: str
    submissions: int
    sandbox: dict[str, dict[str, str]]

    async def evaluate(self, request: EvaluationRequest, waited_s: float, alone: bool) -> Evaluation: ...

    async def stage(self, request_id: str) -> str: ...

    def health(self) -> dict[str, Any]: ...


class Fleet:
    """`fixed`: no place will come that is not there now, so that all of them failing is the end.

    Whoever changes `places`, or a place's state, sets `changed`.
    """

    def __init__(self, kind: Literal["cuda", "cpu"], fixed: bool) -> None:
        self.places: Sequence[Place] = ()
        self.changed = Signal()
        self.message = ""
        self._kind = kind
        self._fixed = fixed
        self._closed = False
        self._waiting = 0
        self._once = Once()

    async def ready(self, timeout_s: float) -> Device | None:
        try:
            async with asyncio.timeout(timeout_s):
                while not self._hopeless():
                    known = [p.device for p in self.places if p.state != "failed" and p.device is not None]
                    if known:
                        return known[0]
                    await self.changed.wait()
        except TimeoutError:
            return None
        return None

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        return await self._once.run(request, self._evaluate)

    async def stage(self, request_id: str) -> str:
        """Of the second attempt, where there is one."""
        for attempt in (_again(request_id), request_id):
            for place in self.places:
                if stage := await place.stage(attempt):
                    return stage
        return ""

    def health(self) -> dict[str, Any]:
        states = [place.state for place in self.places]
        waiting = "failed" if self._hopeless() else "starting"
        reasons = [self.message, *(place.message for place in self.places)]
        return {
            "state": "ready" if "ready" in states and not self._closed else waiting,
            "devices": [place.health() for place in self.places],
            "queued": self._waiting + sum(max(place.submissions - 1, 0) for place in self.places),
            "running": sum(min(place.submissions, 1) for place in self.places),
            "sandbox": weakest(place.sandbox for place in self.places if place.sandbox),
            "message": "; ".join(dict.fromkeys(reason for reason in reasons if reason)),
        }

    def close(self) -> None:
        """Whoever waits for a place, now or later, is told at once. Ending the places is the pool's."""
        self._closed = True
        self.message = CLOSED
        self.changed.set()

    async def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        arrived = time.monotonic()
        place, evaluation = await self._attempt(request, arrived, None)
        first = evaluation.outcome
        if not isinstance(first, Infrastructure) or not first.retryable:
            return evaluation
        again = request.model_copy(update={"id": _again(request.id)})
        _, evaluation = await self._attempt(again, arrived, place)
        evaluation = _twice(evaluation, first)
        if evaluation.outcome.kind == "infrastructure":
            ids = {"evaluation_id": request.id}
            _logger.warning("submission %s: %s", request.id, evaluation.outcome.message, extra=ids)
        return evaluation

    async def _attempt(
        self, request: EvaluationRequest, arrived: float, avoid: Place | None
    ) -> tuple[Place | None, Evaluation]:
        """`avoid` is where the first attempt was; without one, this is the first."""
        left_s = max(request.budget_s - (time.monotonic() - arrived), 0.0)
        self._waiting += 1
        try:
            async with asyncio.timeout(left_s):
                place = await self._available(avoid)
                if not left_s:
                    raise TimeoutError
        except TimeoutError:
            message = f"no worker was ready within the step's {request.budget_s:.3g} s"
            return None, self._fault(message)
        except Unavailable as error:
            return None, self._fault(str(error))
        finally:
            self._waiting -= 1
        return place, await place.evaluate(request, time.monotonic() - arrived, alone=avoid is not None)

    async def _available(self, avoid: Place | None) -> Place:
        """The best of those that are ready; raises `Unavailable`."""
        rank: Callable[[Place], tuple[bool, int]] = lambda place: (place is avoid, place.submissions)  # noqa: E731
        while not self._hopeless():
            if ready := [place for place in self.places if place.state == "ready"]:
                return min(ready, key=rank)
            await self.changed.wait()
        raise Unavailable(str(self.health()["message"]) or CLOSED)

    def _hopeless(self) -> bool:
        return self._closed or (self._fixed and all(place.state == "failed" for place in self.places))

    def _fault(self, reason: str) -> Evaluation:
        device = next((place.device for place in self.places if place.device is not None), None)
        device = device or Device(kind=self._kind, name="not started")
        return Evaluation(outcome=Infrastructure(message=reason, retryable=False), device=device)


class FleetPool:
    """What pools with a fleet have in common; see `pool.Pool` for the contract."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def ready(self, timeout_s: float) -> Device | None:
        return await self._fleet.ready(timeout_s)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        return await self._fleet.evaluate(request)

    async def stage(self, request_id: str) -> str:
        return await self._fleet.stage(request_id)

    def health(self) -> dict[str, Any]:
        return self._fleet.health()


def _again(request_id: str) -> str:
    return f"{request_id}-again"


def _twice(evaluation: Evaluation, first: Infrastructure) -> Evaluation:
    """No third time: what is lost even while it has a worker to itself may well be the cause."""
    second = evaluation.outcome
    if not isinstance(second, Infrastructure):
        return evaluation
    reasons = "; ".join(dict.fromkeys([first.message, second.message]))
    message = f"tried twice, the second time alone on its device: {reasons}"
    outcome = second.model_copy(update={"message": message, "retryable": False})
    return evaluation.model_copy(update={"outcome": outcome})
