"""What every episode shares: settings, tasks, the pool and the event log, with their common lifetime.

Created once for each application; free of work until `start`. Knows nothing of sessions and frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .config import Settings
from .eventlog import EventLog
from .outcome import Device
from .pool import Pool
from .protocol import Refusal
from .tasks import TaskSet

START_WAIT_S = 120.0
PAUSE_S = 1.0
CLOSE_WAIT_S = 20.0
DRAIN_STEP_S = 0.05
DRAIN_S = 8.0
"""Docker kills what has not ended 10 s after its SIGTERM."""

_logger = logging.getLogger(__name__)


class SandboxError(RuntimeError):
    """The server must not start with what this machine has to confine submissions."""


@dataclass
class Backend:
    """`loop` is the server's event loop once it runs, for callers in other threads.

    `running` holds the evaluation of each episode that waits for one.
    """

    settings: Settings
    tasks: TaskSet
    pool: Pool
    log: EventLog
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    visitors: int = 0
    running: dict[str, str] = field(default_factory=dict)
    stopping: bool = False
    _announcing: asyncio.Task[None] | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Raises `SandboxError` where the sandbox must be whole and is not."""
        self.loop = asyncio.get_running_loop()
        await self.pool.start()
        if self.settings.sandbox == "strict" and await self.pool.ready(START_WAIT_S) is None:
            raise SandboxError(str(self.pool.health().get("message") or "no device came up"))
        self._announcing = asyncio.create_task(self._announce())

    async def drain(self) -> None:
        """Take nothing new, and give the evaluations that are under way a bounded time to be answered."""
        self.stopping = True
        under_way = f": {len(self.running)} evaluations under way have {DRAIN_S:g} s" if self.running else ""
        _logger.info("stopping%s", under_way)
        for _ in range(round(DRAIN_S / DRAIN_STEP_S)):
            if not self.running:
                break
            await asyncio.sleep(DRAIN_STEP_S)
        await asyncio.sleep(DRAIN_STEP_S)  # for the last reply to be sent

    def check_open(self) -> None:
        """Raises `Refusal` when nothing new is taken."""
        if self.stopping:
            raise Refusal("SERVER_STARTING", "the server is stopping; try again where another takes its place")

    async def close(self) -> None:
        """End the pool within a bound, then flush the log."""
        if self._announcing is not None:
            self._announcing.cancel()
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                await self.pool.close()
        except TimeoutError:
            _logger.error("the pool did not end within %g s", CLOSE_WAIT_S)
        await asyncio.to_thread(self.log.close)

    async def _announce(self) -> None:
        """Tell the log when a device can evaluate, and why none can."""
        told = ""
        while (device := await self.pool.ready(START_WAIT_S)) is None:
            health = self.pool.health()
            hopeless = health.get("state") == "failed"
            state = "can evaluate" if hopeless else f"is ready after {START_WAIT_S:g} s"
            why = f": {health['message']}" if health.get("message") else ""
            if told != state + why:
                told = state + why
                _logger.log(logging.ERROR if hopeless else logging.WARNING, "no device %s", told)
            if hopeless:
                return
            await asyncio.sleep(PAUSE_S)
        layers = self.pool.health().get("sandbox", {})
        lacking = [name for name, layer in layers.items() if layer.get("state") == "unavailable"]
        without = f"; the sandbox is without {', '.join(lacking)}, see /health" if lacking else ""
        _logger.info("ready to evaluate on %s%s", device.name, without)

    @contextmanager
    def visit(self) -> Iterator[None]:
        """A step outside any session; as many at one time as there may be sessions. Raises `Refusal`."""
        limit = self.settings.max_sessions
        if self.visitors >= limit:
            raise Refusal("CAPACITY_REACHED", f"{limit} HTTP steps are running; try again later")
        self.visitors += 1
        try:
            yield
        finally:
            self.visitors -= 1

    @contextmanager
    def evaluating(self, episode_id: str, evaluation_id: str) -> Iterator[None]:
        """While the evaluation runs, `running` has it."""
        self.running[episode_id] = evaluation_id
        try:
            yield
        finally:
            if self.running.get(episode_id) == evaluation_id:  # clients may choose one id for two episodes
                del self.running[episode_id]

    def retire(self, task_id: str, reason: str) -> None:
        """Take a task out of use: the device can't run it."""
        _logger.error("task %s is out of use: %s", task_id, reason)
        self.tasks = self.tasks.with_faults({task_id: reason})

    async def device(self) -> Device:
        """A device that can evaluate, waited for within a bound. Raises `Refusal`."""
        self.check_open()
        device = await self.pool.ready(START_WAIT_S)
        if device is not None:
            return device
        health = self.pool.health()
        told = f": {health['message']}" if health.get("message") else ""
        if health.get("state") == "failed":
            raise Refusal("EXECUTION_ERROR", f"no device can evaluate{told}; the server needs attention")
        raise Refusal("SERVER_STARTING", f"no device is ready yet{told}; try again, or watch /health")
