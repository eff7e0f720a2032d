"""The `/ws` endpoint: one connection's life, from admission to the freed place.

Two tasks share a socket: one reads at all times, so that a client's departure is noticed at once, and one
answers, strictly one reply for each request in order. What is read ahead is capped. A request that cannot
be done gets one error frame and the session lives on.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from contextlib import suppress
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse
from pydantic import ValidationError

from .backend import Backend
from .protocol import Message, Refusal, echo, error_frame, mcp_frame, parse
from .session import Session, Sessions

MAX_FRAME_BYTES = 16 << 20
AHEAD_FRAMES = 32
AHEAD_BYTES = 16 << 20
SEND_S = 60.0
NORMAL = (1000, 1001)

_logger = logging.getLogger(__name__)


class Connection:
    """One socket. `serve` returns when it is closed, by either side."""

    def __init__(self, socket: WebSocket, backend: Backend, sessions: Sessions) -> None:
        self._socket = socket
        self._sessions = sessions
        # JSON may write each byte of code as a six-byte escape.
        self._frame_cap = 6 * backend.settings.max_code_bytes + (64 << 10)
        self._inbox = _Inbox()
        self._evicted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def evict(self, reason: str) -> None:
        if not self._evicted.done():
            self._evicted.set_result(reason)

    async def serve(self) -> None:
        try:
            await self._socket.accept()
            session = self._sessions.attach(self, self._socket.query_params.get("resume") or None)
        except Refusal as refusal:
            with suppress(WebSocketDisconnect, TimeoutError):
                await self._send(error_frame(refusal))
                await self._socket.close(1000)
            return
        except WebSocketDisconnect:
            return
        await self._serve(session)

    async def _serve(self, session: Session) -> None:
        reading = asyncio.create_task(self._read())
        answering = asyncio.create_task(self._answer_all(session))
        keep, finished, close = True, False, (1011, "")
        try:
            ends: set[asyncio.Future[Any]] = {reading, answering, self._evicted}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._evicted.done():
                close = (1008, self._evicted.result())
            elif answering.done() and answering.exception() is None:
                keep, close = False, (1000, "")
            elif reading.done() and reading.exception() is None:
                keep, finished = not self._inbox.asks_to_close(), reading.result() in NORMAL
            elif reading.done():
                close = (1008, "too many requests ahead of their replies")
        finally:
            self._sessions.detach(session, self, keep, finished)
            reading.cancel()
            answering.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(*close)

    async def _read(self) -> int:
        """Read until the client is gone; the code it closed with. Raises `Refusal` when it floods."""
        while True:
            event = await self._socket.receive()
            if event["type"] == "websocket.disconnect":
                return int(event.get("code") or 1005)
            text = event.get("text")
            if text is None:
                self._inbox.put(Refusal("VALIDATION_ERROR", "binary frames are not read: send JSON as text"), 0)
            elif len(text) > self._frame_cap:
                self._inbox.put(
                    Refusal(
                        "TOO_LARGE", f"the frame has {len(text)} characters, at most {self._frame_cap} are read"
                    ),
                    0,
                )
            else:
                self._inbox.put(text, len(text))

    async def _answer_all(self, session: Session) -> None:
        """Answer requests in order until one says close, or the socket takes no more."""
        while True:
            item = await self._inbox.get()
            try:
                if isinstance(item, Refusal):
                    raise item
                message = parse(item)
                if message.type == "close":
                    return
                with session.in_use():
                    reply = await _reply(session, message)
            except Refusal as refusal:
                reply = error_frame(refusal)
            except Exception:
                # The one place where anything may arrive: a fault of ours must not end the session.
                reply = error_frame(_fault())
            await self._send(reply)

    async def _send(self, frame: str) -> None:
        async with asyncio.timeout(SEND_S):
            await self._socket.send_text(frame)


class _Inbox:
    """Requests read ahead of their replies: at most `AHEAD_FRAMES` and `AHEAD_BYTES`."""

    def __init__(self) -> None:
        self._items: deque[tuple[str | Refusal, int]] = deque()
        self._size = 0
        self._filled = asyncio.Event()

    def put(self, item: str | Refusal, size: int) -> None:
        """Raises `Refusal` (BUSY) when full."""
        if len(self._items) >= AHEAD_FRAMES or (self._items and self._size + size > AHEAD_BYTES):
            raise Refusal("BUSY", "too many requests ahead of their replies")
        self._items.append((item, size))
        self._size += size
        self._filled.set()

    def asks_to_close(self) -> bool:
        """Whether a request to close waits: a client may send it and be gone before it is read."""
        return any(isinstance(item, str) and len(item) < 100 and '"close"' in item for item, _ in self._items)

    async def get(self) -> str | Refusal:
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        item, size = self._items.popleft()
        self._size -= size
        return item


async def _reply(session: Session, message: Message) -> str:
    match message.type:
        case "reset":
            return await session.reset(message.data)
        case "step":
            return await session.step(message.data)
        case "state":
            return session.state()
        case _:
            return mcp_frame(_mcp(message))


def _mcp(message: Message) -> dict[str, object]:
    """This environment has no MCP tools; the reply says so as openenv's own server does."""
    try:
        request = JsonRpcRequest(**message.data)
    except (ValidationError, TypeError):
        reply = JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, "Invalid request")
        return reply.model_dump()
    if request.method not in ("tools/list", "tools/call"):
        text, code = f"Method not found: {echo(request.method)}", JsonRpcErrorCode.METHOD_NOT_FOUND
    else:
        text, code = "Environment does not support MCP", JsonRpcErrorCode.INTERNAL_ERROR
    return JsonRpcResponse.error_response(code, text, request_id=request.id).model_dump()


def _fault() -> Refusal:
    """Log the exception being handled under an id, and name only the id to the client."""
    incident = uuid.uuid4().hex[:8]
    _logger.exception("incident %s", incident)
    return Refusal(
        "EXECUTION_ERROR", f"the server failed on this request; its log has the cause (incident {incident})"
    )
