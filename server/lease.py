"""Who has the device, and who is next: one submission is judged, one more stands by with its processes ready.

Processes of the next one are made while the device is in use, but not while something is timed on it: to create
a context disturbs what runs. Turns go in the order of asking. Knows nothing of what is done in a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .budget import Budget


class Lease:
    """One device's."""

    def __init__(self) -> None:
        self._device = asyncio.Lock()
        self._next = asyncio.Lock()
        self._calm = asyncio.Event()
        self._calm.set()

    @asynccontextmanager
    async def turn(self, budget: Budget) -> AsyncIterator[Turn]:
        """Next in line: what stands by may be made ready. `TimeoutError` when the step's time is spent before."""
        turn = Turn(budget, self._device, self._next, self._calm)
        with budget.timed("queue"):
            async with asyncio.timeout(budget.left_s):
                await self._next.acquire()
        try:
            with budget.timed("queue"):
                async with asyncio.timeout(budget.left_s):
                    await self._calm.wait()
            yield turn
        finally:
            turn.end()


class Turn:
    """A submission's own: to be taken when it is ready, and ended in any case."""

    def __init__(self, budget: Budget, device: asyncio.Lock, line: asyncio.Lock, calm: asyncio.Event) -> None:
        self._budget = budget
        self._device = device
        self._line = line
        self._calm = calm
        self.taken = False

    async def take(self) -> None:
        """Wait for the device, unless it is taken; `TimeoutError` when the step's time is spent before."""
        if self.taken:
            return
        with self._budget.timed("queue"):
            async with asyncio.timeout(self._budget.left_s):
                await self._device.acquire()
        self.taken = True
        self._line.release()

    def timing(self) -> None:
        """From here on nobody is to make processes ready."""
        self._calm.clear()

    def end(self) -> None:
        """Whoever has the device keeps it until what ran there is gone: to be called after that."""
        if self.taken:
            self._calm.set()
            self._device.release()
        else:
            self._line.release()
