"""Who has the device, and who is next: one submission is judged, one more stands by with its processes ready.

Processes of the next one are made while the device is in use, but not while something is timed on it: to create
a context disturbs what runs. So nobody begins to make any during timing, and timing begins when they are made.
Turns go in the order of asking. Knows nothing of what is done in a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from .budget import Budget

READY_S = 30.0
"""Whoever gets the device then finds out what became of processes that are not ready."""


class Lease:
    """One device's."""

    def __init__(self) -> None:
        self.device = asyncio.Lock()
        self.line = asyncio.Lock()
        self.calm = asyncio.Event()
        self.calm.set()
        self.made = asyncio.Event()
        self.made.set()

    @asynccontextmanager
    async def turn(self, budget: Budget) -> AsyncIterator[Turn]:
        """Next in line: what stands by may be made. `TimeoutError` when the step's time is spent before."""
        turn = Turn(budget, self)
        with budget.timed("queue"):
            async with asyncio.timeout(budget.left_s):
                await self.line.acquire()
        try:
            yield turn
        finally:
            turn.end()


class Turn:
    """A submission's own: to be taken when it is ready, and ended in any case."""

    def __init__(self, budget: Budget, lease: Lease) -> None:
        self._budget = budget
        self._lease = lease
        self.taken = False

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """Processes are made inside, once nothing is timed (`TimeoutError` as above); `ready` ends that."""
        if not self.taken:
            with self._budget.timed("queue"):
                async with asyncio.timeout(self._budget.left_s):
                    await self._lease.calm.wait()
            self._lease.made.clear()
        try:
            yield
        finally:
            self.ready()

    def ready(self) -> None:
        """What stands by is made; for whoever has the device it makes no difference."""
        if not self.taken:
            self._lease.made.set()

    async def take(self) -> None:
        """Wait until what stands by is made, and for the device, unless it is taken.

        `TimeoutError` when the step's time is spent before.
        """
        if self.taken:
            return
        with self._budget.timed("processes"), suppress(TimeoutError):
            async with asyncio.timeout(min(self._budget.left_s, READY_S)):
                await self._lease.made.wait()
        with self._budget.timed("queue"):
            async with asyncio.timeout(self._budget.left_s):
                await self._lease.device.acquire()
        self.ready()
        self.taken = True
        self._lease.line.release()

    async def quiet(self, limit_s: float) -> None:
        """From here on nobody is to make processes ready; returns when those that are being made are, or at the
        limit.
        """
        self._lease.calm.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._lease.made.wait()

    def end(self) -> None:
        """Whoever has the device keeps it until what ran there is gone: to be called after that."""
        if self.taken:
            self._lease.calm.set()
            self._lease.device.release()
        else:
            self.ready()
            self._lease.line.release()
