"""Frames between processes: a 4-byte length, then one JSON object; file descriptors may ride along.

Invariants: a frame never exceeds its cap; nothing received is unpickled or evaluated; a peer that closes,
overruns the cap or sends anything but a JSON object raises `FrameError`, and a wait that passes its bound,
to send or to receive, raises `FrameTimeout`. `Peer` is the blocking side (judge, zygote, candidate); `Stream` the
asyncio side (worker, pool). This module knows nothing of what the frames say.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

TRUSTED_CAP = 32 << 20
CANDIDATE_CAP = 1 << 20
MAX_FDS = 8

_HEADER = struct.Struct("!I")


class FrameError(ConnectionError):
    """The peer is gone or does not speak the protocol."""


class FrameTimeout(TimeoutError):
    """No whole frame arrived, or could be sent, in time."""


def encode(message: dict[str, Any]) -> bytes:
    """One frame on the wire; non-finite numbers are allowed between our own processes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _HEADER.pack(len(body)) + body


def decode(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame was not JSON") from error
    if not isinstance(message, dict):
        raise FrameError("a frame was not a JSON object")
    return message


class Peer:
    """The blocking end of a link. `watch` descriptors end a wait early: a readable one means death."""

    def __init__(self, sock: socket.socket, cap: int, watch: Sequence[int] = (), trusted: bool = True) -> None:
        """`trusted` peers may send descriptors; those of others are dropped by the kernel, unseen."""
        sock.setblocking(True)
        self._trusted = trusted
        self.sock = sock
        self._cap = cap
        self._watch = tuple(watch)
        self._buffer = bytearray()
        self._fds: list[int] = []

    def send(self, message: dict[str, Any], fds: Sequence[int] = (), timeout_s: float | None = None) -> None:
        """Send one frame; waits for a peer that does not read as `receive` waits for one that does not write.

        A frame cut short by the deadline leaves the link useless: the caller gives the peer up.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        data = memoryview(encode(message))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        while data:
            try:
                data = data[self.sock.sendmsg([data], rights, socket.MSG_DONTWAIT) :]
                rights = []
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise FrameError("the peer is gone") from error

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next frame; waits on the socket and the watched descriptors together."""
        return self.receive_with_fds(timeout_s)[0]

    def receive_with_fds(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._fill(_HEADER.size, deadline)
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > self._cap:
            raise FrameError(f"a frame of {length} bytes is over the cap of {self._cap}")
        self._fill(_HEADER.size + length, deadline)
        body = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
        del self._buffer[: _HEADER.size + length]
        fds, self._fds = self._fds, []
        return decode(body), fds

    def _fill(self, size: int, deadline: float | None) -> None:
        while len(self._buffer) < size:
            self._wait(select.POLLIN, deadline)
            try:
                data, fds = self._read()
            except OSError as error:
                raise FrameError("the peer is gone") from error
            self._fds.extend(fds)
            if not data:
                raise FrameError("the peer closed the link")
            self._buffer += data

    def _read(self) -> tuple[bytes, list[int]]:
        if not self._trusted:
            return self.sock.recv(1 << 16), []
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, MAX_FDS)
        return data, fds

    def _wait(self, event: int, deadline: float | None) -> None:
        poller = select.poll()
        poller.register(self.sock.fileno(), event)
        for fd in self._watch:
            poller.register(fd, select.POLLIN)
        left = None if deadline is None else (deadline - time.monotonic()) * 1000
        if left is not None and left < 0.0:  # a peer that trickles is never waited for, but late all the same
            raise FrameTimeout("no frame could be passed in time")
        ready = {fd for fd, _ in poller.poll(left)}
        if not ready:
            raise FrameTimeout("no frame could be passed in time")
        if self.sock.fileno() not in ready:
            raise FrameError("the peer's process ended")

    def close(self) -> None:
        self.sock.close()
        for fd in self._fds:
            os.close(fd)
        self._fds = []


class Stream:
    """The asyncio end of a link. One reader and one writer at a time; `send` may carry descriptors."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: socket.socket, cap: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._raw = raw
        self._cap = cap
        self._sending = asyncio.Lock()

    @classmethod
    async def adopt(cls, sock: socket.socket, cap: int) -> Stream:
        """Takes the socket over, whatever becomes of the attempt."""
        raw = sock.dup()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=sock, limit=1 << 20)
        except BaseException:
            raw.close()
            sock.close()
            raise
        writer.transport.set_write_buffer_limits(0)
        return cls(reader, writer, raw, cap)

    async def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one frame. Descriptors ride on its header, written alone so that it cannot block."""
        data = encode(message)
        async with self._sending:
            try:
                if fds:
                    await self._writer.drain()
                    socket.send_fds(self._raw, [data[:4]], list(fds))
                    data = data[4:]
                self._writer.write(data)
                await self._writer.drain()
            except OSError as error:
                raise FrameError("the peer is gone") from error

    def hint(self, message: dict[str, Any]) -> None:
        """Send a frame that may as well be lost: not while the peer has still to take an earlier one."""
        if not self._writer.is_closing() and not self._writer.transport.get_write_buffer_size():
            self._writer.write(encode(message))

    async def receive(self) -> dict[str, Any]:
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            if length > self._cap:
                raise FrameError(f"a frame of {length} bytes is over the cap of {self._cap}")
            return decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise FrameError("the peer closed the link") from error

    async def close(self) -> None:
        self._raw.close()
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)
        except (OSError, TimeoutError):
            return
