"""Runs blocking functions beside the event loop in threads that hold nothing up: one that never returns costs
its time-out, and neither the run's end nor the interpreter's waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """The function's result, or what it raises. Cancelling leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(act: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            act(value)

    def run() -> None:
        # Whatever a function of the user's raises is the caller's to see, in the caller's task.
        try:
            act, value = done.set_result, function(*arguments)
        except BaseException as error:
            act, value = done.set_exception, error  # type: ignore[assignment]
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(deliver, act, value)

    threading.Thread(target=run, name="evolve", daemon=True).start()
    return await done
