"""One device behind a remote pool: a `Seat` in a process of its own machine, spoken to in JSON's terms.

Ray's actors and Modal's containers are hosts. What a host does about a device that no worker can be started for is
theirs to say (`give_up`): never to stay, fail fast and attract work. Each evaluation's begin and end is a line of
the host's log.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

from kernel_env import __version__

from .config import Settings
from .fleet import CLOSED
from .logs import to_stderr
from .outcome import Device, EvaluationRequest
from .seat import DeviceKind, Seat
from .wake import Signal

WATCH_S = 10.0

_logger = logging.getLogger(__name__)


class Host:
    """Evaluations run side by side, as far as the worker lets them. Begins with the first call."""

    def __init__(self, settings: Settings, kind: DeviceKind, index: str, builds: int = 0) -> None:
        """`builds` is how many may run at once; 0: as many as the cores allow."""
        to_stderr(settings.log)
        self._changed = Signal()
        self._seat = Seat(replace(settings, token=""), kind, index, self._changed, builds=builds)
        self._keeping: asyncio.Task[None] | None = None

    async def watch(self, known: dict[str, Any] | None) -> dict[str, Any]:
        """How the device stands, once that is not as `known` any more or a while has passed."""
        self._begin()
        try:
            async with asyncio.timeout(WATCH_S):
                while (told := self.told()) == known:
                    await self._changed.wait()
        except TimeoutError:
            pass
        return told

    async def up(self, timeout_s: float) -> bool:
        """Wait until the device can evaluate; False where it can't, or not in time."""
        self._begin()
        try:
            async with asyncio.timeout(timeout_s):
                while self._seat.state == "starting":
                    await self._changed.wait()
        except TimeoutError:
            return False
        return bool(self.told()["state"] == "ready")

    async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]:
        """`Seat.evaluate`."""
        self._begin()
        asked = EvaluationRequest.model_validate(request)
        ids = {"evaluation_id": asked.id}
        _logger.info("evaluation %s begins", asked.id, extra=ids)
        end = "abandoned"
        try:
            evaluation = await self._seat.evaluate(asked, waited_s, alone)
            end = evaluation.outcome.kind
            return evaluation.model_dump()
        finally:
            _logger.info("evaluation %s ends: %s", asked.id, end, extra=ids)

    async def stage(self, request_id: str) -> str:
        """`Seat.stage`."""
        return await self._seat.stage(request_id)

    async def close(self) -> None:
        """End the worker; idempotent."""
        self._seat.retire(CLOSED)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def told(self) -> dict[str, Any]:
        """`refused`: failed, and starting again is of no use."""
        seat = self._seat
        state, message = seat.state, seat.message
        if state == "ready" and (other := _another(seat.device, seat.index)):
            state, message = "failed", other
        return {
            "version": __version__,
            "state": state,
            "refused": seat.refused or state != seat.state,
            "message": message,
            "device": seat.device.model_dump() if seat.device else None,
            "sandbox": seat.sandbox,
            "restarts": seat.restarts,
        }

    async def give_up(self) -> None:
        """No worker can be started for the device, for no reason that lies in the settings."""

    def _begin(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        await self._seat.keep()
        if not self._seat.refused:
            _logger.error("%s: %s", self._seat.index, self._seat.message)
            await self.give_up()


def _another(device: Device | None, index: str) -> str:
    """What is wrong with the device that the worker has, if it was to have the one with the UUID `index`."""
    if device is None or not index.startswith("GPU-") or index == device.uuid:
        return ""
    return f"the worker evaluates on {device.uuid}, not on {index}"
