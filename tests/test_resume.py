"""The real client over a connection that breaks: a step's result arrives exactly once, or the loss is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest

from kernel_env import EpisodeLostError, KernelAction, KernelEnv

from .conftest import Launch
from .serving import CODE, Server, scripted


class Line:
    """A TCP line to the server that can be cut and mended, and that can swallow the server's replies."""

    def __init__(self, server: Server) -> None:
        target = urlsplit(server.url)
        self._target = (target.hostname, target.port)
        self._writers: list[asyncio.StreamWriter] = []
        self.swallow = False
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Line]:
        listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self.cut()
            listener.close()

    def cut(self) -> None:
        """Break every connection in both directions."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers += [writer, back]
        with suppress(OSError):
            await asyncio.gather(self._pump(reader, back, False), self._pump(there, writer, True))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, reply: bool) -> None:
        while data := await source.read(1 << 16):
            if not (reply and self.swallow):
                sink.write(data)
                await sink.drain()
        sink.close()


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_MAX_SESSIONS="2")


async def test_a_step_cut_in_the_middle_is_evaluated_again(server: Server) -> None:
    before = server.counts()
    async with Line(server).open() as line, KernelEnv(base_url=line.url) as env:
        await env.reset(seed=0)
        step = asyncio.create_task(env.step(KernelAction(code=scripted(sleep=1.0))))
        await asyncio.sleep(0.4)
        line.cut()
        result = await asyncio.wait_for(step, 20)
        assert (result.observation.turn, result.done) == (1, False)
        assert (await env.state()).step_count == 1
        assert (await env.step(KernelAction(code=CODE))).observation.turn == 2
    after = server.counts()
    assert {name: after[name] - before[name] for name in after} == {"started": 3, "finished": 2, "cancelled": 1}


async def test_a_reply_lost_on_the_way_is_given_once_more(server: Server) -> None:
    before = server.counts()
    async with Line(server).open() as line, KernelEnv(base_url=line.url) as env:
        await env.reset(seed=0)
        line.swallow = True
        step = asyncio.create_task(env.step(KernelAction(code=CODE)))
        await asyncio.to_thread(server.wait_for_count, 10.0, "finished", before["finished"] + 1)
        await asyncio.sleep(0.2)
        line.cut()
        line.swallow = False
        result = await asyncio.wait_for(step, 20)
        assert result.observation.turn == 1
        assert (await env.state()).step_count == 1
    assert server.counts()["started"] == before["started"] + 1


async def test_a_server_that_was_restarted_has_lost_the_episode(launch: Launch) -> None:
    first = launch()
    env = KernelEnv(base_url=first.url, resume_wait_s=2.0)
    await env.reset(seed=0)
    first.stop()
    second = launch(KERNEL_ENV_PORT=str(urlsplit(first.url).port))
    with pytest.raises(EpisodeLostError):
        await env.step(KernelAction(code=CODE))
    result = await env.reset(seed=0)
    assert result.observation.turn == 0
    assert (await env.step(KernelAction(code=CODE))).observation.turn == 1
    await env.close()
    second.wait_for(5.0, active_sessions=0, parked_sessions=0)
    second.stop()
