"""Many calls, a bounded number at a time, with results as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def abreast(calls: Iterable[Callable[[], Awaitable[T]]], at_once: int) -> AsyncGenerator[T, None]:
    """Results in the order in which they are done; raises what a call raises. At the end none still runs."""
    slots = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    running = [asyncio.create_task(one(call)) for call in calls]
    try:
        for done in asyncio.as_completed(running):
            yield await done
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
