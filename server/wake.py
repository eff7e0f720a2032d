"""Wakes everyone who waits for a change."""

from __future__ import annotations

import asyncio


class Signal:
    """Wakes everyone who waits at the moment it is set."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()
