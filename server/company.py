"""Which submissions may be with a worker at one time: any number, or one that has it to itself.

What was lost with a worker's processes may be what ended them, and so comes again alone: whatever it does then, it
takes no other submission with it. Newcomers wait behind it, so that it gets its turn. Fair to nobody else; bounds
are the caller's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .wake import Signal


class Company:
    def __init__(self) -> None:
        self._inside = 0
        self._alone = False
        self._queued_alone = 0
        self._changed = Signal()

    @asynccontextmanager
    async def join(self, alone: bool) -> AsyncIterator[None]:
        """Wait for a place and keep it for the time of the context."""
        self._queued_alone += alone
        try:
            while self._closed(alone):
                await self._changed.wait()
        finally:
            self._queued_alone -= alone
            self._changed.set()
        self._inside += 1
        self._alone = alone
        try:
            yield
        finally:
            self._inside -= 1
            self._alone = False
            self._changed.set()

    def _closed(self, alone: bool) -> bool:
        return self._inside > 0 if alone else self._alone or self._queued_alone > 0
