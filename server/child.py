"""A trusted process started by exec (worker, judge, zygote): one socket, a hello, a bounded end.

A `Child` exists only once its process has said hello, so code can't talk to one that is not ready. The socket
is the process's only tie to us: closing it asks for the end, SIGKILL follows after a grace. Frames are read by
one task; `closed` is set when the process goes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .finish import finish
from .frames import TRUSTED_CAP, FrameError, Stream

GRACE_S = 3.0


class StartFailed(RuntimeError):
    """A process of ours did not come up; the text says why."""


class StartRefusedError(StartFailed):
    """The same, and trying again is of no use."""


class Child:
    """A process that is up, its hello, and its stream."""

    def __init__(
        self,
        name: str,
        process: asyncio.subprocess.Process,
        stream: Stream,
        hello: dict[str, Any],
        environment: dict[str, str],
    ) -> None:
        self.name = name
        self.stream = stream
        self.hello = hello
        self.environment = environment
        self._process = process
        self._asking = asyncio.Lock()
        self._broken = False

    @classmethod
    async def start(
        cls,
        name: str,
        arguments: Sequence[str],
        environment: dict[str, str],
        folder: str,
        timeout_s: float,
    ) -> Child:
        """Start `python -P -m kernel_env.server.NAME FD PARENT ARGUMENTS...`; raises `StartFailed`.

        `folder` is where it runs, never where it imports from (-P): candidates may write there.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            stream = await Stream.adopt(ours, TRUSTED_CAP)
            command = [
                sys.executable,
                "-P",
                "-m",
                f"kernel_env.server.{name}",
                str(theirs.fileno()),
                str(os.getpid()),
            ]
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    *arguments,
                    pass_fds=[theirs.fileno()],
                    env=environment,
                    cwd=folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                )
            except BaseException:
                await finish(stream.close())
                raise
        try:
            hello = await asyncio.wait_for(stream.receive(), timeout_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                process.terminate()  # it may be importing for seconds before it looks at its socket
            await finish(_end(process, stream))
            if isinstance(error, FrameError):
                raise StartFailed(f"{name} ended while starting (its error is on stderr)") from None
            if isinstance(error, TimeoutError):
                raise StartFailed(f"{name} did not start within {timeout_s:.0f} s") from None
            raise
        return cls(name, process, stream, hello, environment)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._broken

    async def ask(
        self,
        message: dict[str, Any],
        fds: Sequence[int] = (),
        timeout_s: float | None = None,
        last: str = "",
        hear: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """One request and its reply: the first one, or the first with the key `last`; `hear` gets those before.

        A caller that is cancelled leaves; the exchange goes on without it, before any other, so that replies
        always belong to their requests. A process that gives no answer in time is killed; that, like any death,
        is a `FrameError`.
        """
        await self._asking.acquire()
        exchange = asyncio.create_task(self._exchange(message, [os.dup(fd) for fd in fds], timeout_s, last, hear))
        exchange.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(exchange)

    async def _exchange(
        self,
        message: dict[str, Any],
        fds: Sequence[int],
        timeout_s: float | None,
        last: str,
        hear: Callable[[dict[str, Any]], None] | None,
    ) -> dict[str, Any]:
        whole = False
        try:
            if self._broken:
                raise FrameError(f"the {self.name} is not to be asked any more")
            async with asyncio.timeout(timeout_s):
                await self.stream.send(message, fds)
                reply = await self.stream.receive()
                while last and last not in reply:
                    if hear is not None:
                        hear(reply)
                    reply = await self.stream.receive()
            whole = True
            return reply
        except TimeoutError:
            self.kill()
            raise FrameError(f"the {self.name} gave no answer and was ended") from None
        finally:
            if not whole:
                self._broken = True  # it may take a while to end; nobody is to ask it again
            for fd in fds:
                os.close(fd)
            self._asking.release()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        await _end(self._process, self.stream)


async def _end(process: asyncio.subprocess.Process, stream: Stream) -> None:
    await stream.close()
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)
