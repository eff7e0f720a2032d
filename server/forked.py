"""A candidate or build process as its worker sees it: handle, link, bounded output, certain end.

The process handle (pidfd), the link and the deadline are waited on together. Output is drained all the time and
only its last `OUTPUT_CAP` bytes are kept. Leaving the context ends the process, its group and its strays,
whatever happened inside, cancellation included.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from .child import Child
from .finish import finish
from .frames import CANDIDATE_CAP, FrameError, Stream

OUTPUT_CAP = 16 << 10
ANSWER_S = 20.0
SAID_S = 0.5
DYING_S = 5.0


class Output:
    """Drains a pipe; keeps its tail."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read, self._drain)

    def _drain(self) -> None:
        try:
            data = os.read(self._read, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._read)
            return
        self._tail += data
        del self._tail[:-OUTPUT_CAP]

    def text(self) -> str:
        return self._tail.decode(errors="replace")

    def close(self) -> None:
        self._loop.remove_reader(self._read)
        os.close(self._read)


@dataclass
class Forked:
    """A running child. `status` is set once it is reaped: exit code, or minus the signal.

    `left`: processes of it that could not be ended.
    `ended` is False for one that had to be ended though it had cut its link. `greeted`: it has said that it is set
    up; whatever happens to it before is no fault of the submission's.
    """

    pid: int
    handle: int
    link: socket.socket
    output: Output
    status: int | None = None
    strays: int = 0
    left: int = 0
    ended: bool = True
    greeted: bool = False
    _died: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self) -> None:
        """Notice the death, once: a dead process's handle stays readable until it is closed."""
        loop = asyncio.get_running_loop()

        def note() -> None:
            loop.remove_reader(self.handle)
            self._died.set()

        loop.add_reader(self.handle, note)

    @property
    def running(self) -> bool:
        return not self._died.is_set()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    async def ends(self, within_s: float) -> bool:
        """Has it ended by itself, or does it soon? One that only closed its link has not."""
        await self.dies(within_s)
        self.ended = self._died.is_set()
        return self.ended

    async def dies(self, within_s: float) -> None:
        """Wait for its end, whatever brings that about."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._died.wait(), within_s)

    async def speaks(self) -> None:
        """Until its first frame can be read, by whoever has the link, or it has ended."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.link, heard.set)
        waits = [asyncio.ensure_future(event.wait()) for event in (heard, self._died)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self.link)
            for wait in waits:
                wait.cancel()

    async def reply(self, timeout_s: float) -> dict[str, Any]:
        """The child's first frame but a hello; `FrameError` when it dies before, `TimeoutError` past the bound."""
        stream = await Stream.adopt(self.link.dup(), CANDIDATE_CAP)
        frame = asyncio.ensure_future(self._answer(stream))
        death = asyncio.ensure_future(self._died.wait())
        try:
            done, _ = await asyncio.wait({frame, death}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise TimeoutError
            if frame not in done:
                await asyncio.wait({frame}, timeout=SAID_S)  # what it had said may still lie in the link
            if not frame.done():
                raise FrameError("the child's process ended")
            return frame.result()
        finally:
            for task in (frame, death):
                task.cancel()
            await asyncio.gather(frame, death, return_exceptions=True)
            await stream.close()

    async def _answer(self, stream: Stream) -> dict[str, Any]:
        while "hello" in (frame := await stream.receive()):
            self.greeted = True
        return frame


@asynccontextmanager
async def forked(zygote: Child, spec: dict[str, Any]) -> AsyncIterator[Forked]:
    """Fork a child of `zygote` for the time of the context; raises `FrameError` if the zygote is gone."""
    forking = asyncio.ensure_future(_fork(zygote, spec))
    try:
        child = await asyncio.shield(forking)
    except asyncio.CancelledError:
        await finish(_abandon(zygote, forking))
        raise
    try:
        yield child
    finally:
        await finish(_end(zygote, child))


async def _abandon(zygote: Child, forking: asyncio.Future[Forked]) -> None:
    with suppress(FrameError):
        await _end(zygote, await forking)


async def _fork(zygote: Child, spec: dict[str, Any]) -> Forked:
    ours, theirs = socket.socketpair()
    output = Output()
    try:
        fds = [theirs.fileno(), output.write, output.write]
        reply = await zygote.ask({"op": "fork", "spec": spec}, fds, ANSWER_S)
        child = Forked(reply["pid"], os.pidfd_open(reply["pid"]), ours, output)
    except BaseException:
        ours.close()
        output.close()
        raise
    finally:
        theirs.close()
        os.close(output.write)
    child.watch()
    return child


async def _end(zygote: Child, child: Forked) -> None:
    child.kill()
    await child.dies(DYING_S)  # a device context takes a tenth of a second to end; the zygote has others to fork
    try:
        reply = await zygote.ask({"op": "reap", "pid": child.pid}, timeout_s=ANSWER_S)
        child.status, child.strays, child.left = reply["status"], reply["strays"], reply["left"]
    except FrameError:
        child.kill()
    finally:
        asyncio.get_running_loop().remove_reader(child.handle)
        child.output._drain()
        child.output.close()
        child.link.close()
        os.close(child.handle)
