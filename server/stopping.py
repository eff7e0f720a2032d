"""How the server ends on SIGTERM or SIGINT: what is under way is answered first, within a bound.

The listener stays open meanwhile, so that `/ready` says no; a second SIGINT cuts it short. What a client is told
then, and what becomes of its episode, is not decided here.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import uvicorn

from .backend import Backend

LOOK_S = 0.05


class Server(uvicorn.Server):
    """uvicorn's own closes every connection at once."""

    def __init__(self, config: uvicorn.Config, backend: Backend) -> None:
        super().__init__(config)
        self._backend = backend

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        draining = asyncio.create_task(self._backend.drain())
        while not draining.done() and not self.force_exit:
            await asyncio.wait({draining}, timeout=LOOK_S)
        draining.cancel()
        with suppress(asyncio.CancelledError):
            await draining
        await super().shutdown(sockets)
