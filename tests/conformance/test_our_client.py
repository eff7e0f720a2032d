"""Our client on our server, with a network between them that loses connections."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kernel_env import AuthenticationError, CapacityError, EpisodeLostError, KernelAction, KernelEnv, RequestError

ROOT = Path(__file__).parents[2]
TASK = "level1/e01_RowSoftmax"
SERVE = ["-m", "kernel_env.cli", "serve", "--port", "{port}", "--evaluator", "mock", "--tasks", "embedded"]

Launch = Callable[[list[str], dict[str, str]], str]

pytestmark = pytest.mark.slow


class Proxy:
    """Forwards TCP; `cut` breaks every connection, `lose_reply` the one on which the server answers next."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._writers: list[asyncio.StreamWriter] = []
        self.lose_reply = False

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers += [writer, far_writer]
        with suppress(ConnectionError):
            await asyncio.gather(self._pump(reader, far_writer, False), self._pump(far_reader, writer, True))
        writer.transport.abort()
        far_writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, reply: bool) -> None:
        while data := await source.read(1 << 16):
            if reply and self.lose_reply:
                self.lose_reply = False
                self.cut()
                return
            sink.write(data)
            await sink.drain()
        sink.transport.abort()


@asynccontextmanager
async def lossy(target: str) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(target)
    listener = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    try:
        yield proxy, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        proxy.cut()
        listener.close()


@pytest.fixture(scope="module")
def code() -> str:
    plan = json.loads((ROOT / "validation" / "runtime.json").read_text())
    text: str = plan["actions"][-1]["code"]
    return text


async def test_an_episode_to_its_end(server: str, code: str) -> None:
    async with KernelEnv(base_url=server) as env:
        first = (await env.reset(seed=3, split="eval", language="triton")).observation
        assert first.stage == ""
        assert "ModelNew" in first.problem
        assert (await env.reset(seed=3, split="eval")).observation.task_id == first.task_id
        for turn in range(1, 5):
            result = await env.step(KernelAction(code=f"```python\n{code}\n```"))
            assert (result.observation.turn, result.done) == (turn, turn == 4)
            assert result.observation.mock
            assert result.reward == result.observation.reward
        with pytest.raises(RequestError, match="EPISODE_DONE"):
            await env.step(KernelAction(code=code))
        assert (await env.state()).step_count == 4


async def test_a_lost_reply_is_had_again_and_counts_once(server: str, code: str) -> None:
    async with lossy(server) as (proxy, url), KernelEnv(base_url=url) as env:
        await env.reset(task_id=TASK)
        before = await env.step(KernelAction(code="no model"))
        proxy.lose_reply = True
        result = await env.step(KernelAction(code=code))
        assert not proxy.lose_reply
        assert (before.observation.turn, result.observation.turn) == (1, 2)
        assert result.observation.stage == "passed"
        assert (await env.state()).step_count == 2


async def test_an_episode_outlives_its_connection(server: str, code: str) -> None:
    async with lossy(server) as (proxy, url), KernelEnv(base_url=url) as env:
        await env.reset(task_id=TASK)
        await env.step(KernelAction(code=code))
        proxy.cut()
        await asyncio.sleep(0.1)
        assert (await env.step(KernelAction(code=code))).observation.turn == 2
        proxy.cut()
        assert (await env.state()).turn == 2


async def test_a_server_that_was_replaced_has_lost_the_episode(launch: Launch, server: str, code: str) -> None:
    other = launch(SERVE, {})
    async with lossy(server) as (proxy, url), KernelEnv(base_url=url) as env:
        await env.reset(task_id=TASK)
        proxy._target = urlsplit(other)
        proxy.cut()
        with pytest.raises(EpisodeLostError, match="EPISODE_LOST"):
            await env.step(KernelAction(code=code))
        await env.reset(task_id=TASK)
        assert (await env.step(KernelAction(code=code))).observation.turn == 1


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        ({"task_id": "level1/e01_RowSoftmx"}, TASK),
        ({"split": "test"}, "train, eval"),
        ({"language": "rust"}, "triton, cuda, cpp"),
        ({"seed": "7"}, "seed"),
        ({"sed": 7}, "seed"),
    ],
)
async def test_a_refused_reset_names_the_choices(server: str, arguments: dict[str, object], choices: str) -> None:
    async with KernelEnv(base_url=server) as env:
        with pytest.raises(RequestError, match=choices) as info:
            await env.reset(**arguments)
        assert info.value.code == "VALIDATION_ERROR"
        await env.reset(task_id=TASK)


async def test_a_free_session_is_waited_for(launch: Launch) -> None:
    url = launch([*SERVE, "--max-sessions", "1"], {})
    async with KernelEnv(base_url=url) as first, KernelEnv(base_url=url) as second:
        await first.reset(task_id=TASK)
        impatient = KernelEnv(base_url=url, capacity_wait_s=0.0)
        with pytest.raises(CapacityError, match="CAPACITY_REACHED"):
            await impatient.reset(task_id=TASK)
        waiting = asyncio.create_task(second.reset(task_id=TASK))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await first.close()
        assert (await waiting).observation.task_id == TASK


async def test_a_client_that_gives_up_frees_its_place(launch: Launch) -> None:
    url = launch([*SERVE, "--max-sessions", "1"], {})
    async with lossy(url) as (proxy, through), KernelEnv(base_url=through) as first:
        await first.reset(task_id=TASK)
        proxy.cut()
        began = time.monotonic()
        async with KernelEnv(base_url=url, capacity_wait_s=10.0) as second:
            await second.reset(task_id=TASK)
        assert time.monotonic() - began < 5.0


async def test_a_token_is_needed_where_one_is_set(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNEL_ENV_TOKEN", raising=False)
    url = launch(SERVE, {"KERNEL_ENV_TOKEN": "sesame"})
    with pytest.raises(AuthenticationError, match="KERNEL_ENV_TOKEN"):
        await KernelEnv(base_url=url).reset()
    with pytest.raises(AuthenticationError):
        await KernelEnv(base_url=url, token="open").reset()
    async with KernelEnv(base_url=url, token="sesame") as env:
        await env.reset(task_id=TASK)
    async with KernelEnv(base_url=url, token="sesame", headers={"Authorization": "Bearer proxy"}) as env:
        await env.reset(task_id=TASK)
    monkeypatch.setenv("KERNEL_ENV_TOKEN", "sesame")
    async with KernelEnv(base_url=url) as env:
        await env.reset(task_id=TASK)


def test_the_command_line_asks_a_server(server: str, code: str, tmp_path: Path) -> None:
    submission = tmp_path / "submission.py"
    submission.write_text(code)
    command = [sys.executable, "-m", "kernel_env.cli", "eval", str(submission), "--task", TASK, "--url", server]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stage"] == "passed"
    submission.write_text("x = 1")
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 1


def test_the_best_of_n_example(server: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text(code)
    best = tmp_path / "best.py.txt"
    command = [sys.executable, str(ROOT / "examples" / "plain_best_of_n.py"), "--url", server, "--task", TASK]
    done = subprocess.run(
        [*command, "--answers", str(tmp_path), "--out", str(best)],
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert best.read_text() == code
