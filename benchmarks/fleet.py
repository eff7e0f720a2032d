"""Many sessions on one server, driven from one event loop by bare WebSockets.

Latency is the time from sending a step to having its whole reply as text. The client parses no JSON and its
garbage collector rests, so that little of what is measured is its own. A reply that is not a passed
submission's ends the measurement with `ReplyError`: a server that refuses work must not look fast.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect

CONNECT_S = 30.0
PHASE_MARGIN_S = 60.0
CONNECTING = 16


class ReplyError(RuntimeError):
    """The server answered with something else than an observation of a passed submission."""


@dataclass(frozen=True)
class Script:
    """What every session plays: `task_id`, then `code`, each time under a comment that makes it new text.

    After `turns` steps a session resets, outside the latencies.
    """

    task_id: str
    code: str
    turns: int

    @property
    def reset_frame(self) -> str:
        return json.dumps({"type": "reset", "data": {"task_id": self.task_id}})

    def step_frame(self, name: str) -> str:
        action = {"code": f"# {name}\n{self.code}", "metadata": {"request_id": name}}
        return json.dumps({"type": "step", "data": action})


@dataclass
class Run:
    """Steps of all sessions in one phase; `latencies` in seconds, sorted."""

    latencies: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    client_cpu_s: float = 0.0
    reply_bytes: int = 0

    def percentile_ms(self, percent: float) -> float:
        """Nearest rank."""
        rank = round(percent / 100 * (len(self.latencies) - 1))
        return self.latencies[rank] * 1e3


class Fleet:
    """Connected sessions that have been reset."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._sessions: list[_Session] = []

    @classmethod
    @asynccontextmanager
    async def of(cls, count: int, url: str, script: Script) -> AsyncIterator[Fleet]:
        """`count` sessions; ended with a close message, so that the server keeps nothing of them."""
        fleet = cls(script)
        try:
            async with asyncio.timeout(CONNECT_S + PHASE_MARGIN_S):
                for first in range(0, count, CONNECTING):
                    names = [f"session {index}" for index in range(first, min(first + CONNECTING, count))]
                    async with asyncio.TaskGroup() as group:
                        for name in names:
                            group.create_task(fleet._join(url, name))
            yield fleet
        finally:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.gather(*(session.end() for session in fleet._sessions), return_exceptions=True)

    async def closed(self, seconds: float) -> Run:
        """Closed loop: each session sends a step as soon as it has the reply to the one before."""
        return await self._play(seconds, period_s=0.0)

    async def paced(self, seconds: float, period_s: float) -> Run:
        """Each session sends a step every `period_s`, at a phase of its own.

        A step that is late because the reply before it was late counts from when it was due.
        """
        return await self._play(seconds, period_s)

    async def _join(self, url: str, name: str) -> None:
        socket = await connect(url, open_timeout=CONNECT_S, max_size=None, proxy=None)
        session = _Session(name, socket, self._script)
        self._sessions.append(session)
        await session.reset()

    async def _play(self, seconds: float, period_s: float) -> Run:
        run = Run()
        phases = random.Random(0)
        with _collector_at_rest():
            cpu, begun = time.process_time(), time.perf_counter()
            async with asyncio.timeout(seconds + PHASE_MARGIN_S), asyncio.TaskGroup() as group:
                for session in self._sessions:
                    due = begun + phases.uniform(0.0, period_s)
                    group.create_task(session.play(run, due, begun + seconds, period_s))
            run.wall_s = time.perf_counter() - begun
            run.client_cpu_s = time.process_time() - cpu
        run.latencies.sort()
        return run


class _Session:
    """One socket and its episode."""

    def __init__(self, name: str, socket: ClientConnection, script: Script) -> None:
        self._name = name
        self._socket = socket
        self._script = script
        self._turn = 0
        self._steps = 0

    async def reset(self) -> None:
        self._turn = 0
        await self._ask(self._script.reset_frame, '"type":"observation"')

    async def play(self, run: Run, due: float, end: float, period_s: float) -> None:
        """Steps from `due` to `end` (of `time.perf_counter`), one every `period_s` or, if 0, without a pause."""
        while (now := time.perf_counter()) < end and due < end:
            if self._turn == self._script.turns:
                await self.reset()
            begun = due if period_s else now
            if due > now:
                await asyncio.sleep(due - now)
                begun = time.perf_counter()
            reply = await self._step()
            run.latencies.append(time.perf_counter() - begun)
            run.reply_bytes = len(reply)
            due += period_s

    async def end(self) -> None:
        await self._socket.send('{"type":"close"}')
        await self._socket.wait_closed()

    async def _step(self) -> str:
        self._turn += 1
        self._steps += 1
        return await self._ask(self._script.step_frame(f"{self._name}, step {self._steps}"), '"stage":"passed"')

    async def _ask(self, frame: str, expected: str) -> str:
        await self._socket.send(frame)
        reply = await self._socket.recv(decode=True)
        if expected not in reply:
            raise ReplyError(f"{self._name} got a reply without {expected}: {reply[:500]}")
        return reply


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
