"""What a step's time goes into, and whose fault it is when that was not enough.

Waiting (for a worker, a build slot, the device, a process of ours to start again) is never the submission's doing.
A stage of the submission ends at its own limit or when the step's time is spent, whichever comes first. The
latter is held against it only if nearly all of that time was its own. Nothing here ends a process. Who watches is
told each stage as it begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from .outcome import Infrastructure, TimedOut

OWN = 0.8


class Budget:
    """`total_s` from arrival at the pool, of which `waited_s` are over. `durations` is for the evaluation.

    `hear` gets the name of each stage that begins.
    """

    def __init__(self, total_s: float, waited_s: float, hear: Callable[[str], None] | None = None) -> None:
        self.total_s = total_s
        self.durations = {"queue": waited_s}
        self._end = time.monotonic() + total_s - waited_s
        self._hear = hear

    @property
    def left_s(self) -> float:
        return max(self._end - time.monotonic(), 0.0)

    def limit(self, stage_s: float) -> float:
        """The time that a stage with the limit `stage_s` really has."""
        return min(stage_s, self.left_s)

    def enter(self, name: str) -> None:
        """A stage begins; whoever does it counts its seconds."""
        if self._hear is not None:
            self._hear(name)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds the seconds spent inside to `durations[name]`."""
        self.enter(name)
        started = time.monotonic()
        try:
            yield
        finally:
            self.durations[name] = self.durations.get(name, 0.0) + time.monotonic() - started

    @asynccontextmanager
    async def turn(self, lock: asyncio.Lock | asyncio.Semaphore) -> AsyncIterator[None]:
        """Wait for `lock` and hold it; `TimeoutError` when the step's time is spent before."""
        with self.timed("queue"):
            async with asyncio.timeout(self.left_s):
                await lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def late(self, end: TimedOut, stage_s: float, own_s: float) -> TimedOut | Infrastructure:
        """The outcome of a stage that has met its limit; `own_s` went into the submission's stages altogether."""
        if end.seconds >= stage_s:
            return end
        if own_s < OWN * self.total_s:
            return self.spent()
        message = f"These were what was left of the step's {self.total_s:.3g} s. {end.message}".strip()
        return end.model_copy(update={"message": message})

    def spent(self) -> Infrastructure:
        """The outcome when the time is over and that can't be laid at the submission's door."""
        waited = self.durations["queue"]
        other = ", ".join(f"{name} {s:.3g} s" for name, s in self.durations.items() if name != "queue")
        message = (
            f"no verdict within the step's {self.total_s:.3g} s: {waited:.3g} s went into waiting for the device"
            f" ({other or 'nothing else was begun'})"
        )
        return Infrastructure(message=message, retryable=False)
