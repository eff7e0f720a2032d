"""Work that is completed whatever cancellations come: ending a process, returning a lease, removing a folder.

`asyncio.shield` protects the work from the first cancellation but lets its caller go on at once, as if it were
done. Only for work that has a bound of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; a cancellation in the meantime is raised afterwards, in place of it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # heeded, so that it is not reported as forgotten
    raise cancelled
