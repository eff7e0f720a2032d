"""The client against a peer that misbehaves on purpose, over real sockets: drops, delays, refusals."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from kernel_env import (
    AuthenticationError,
    CapacityError,
    EpisodeLostError,
    KernelAction,
    KernelEnv,
    KernelEnvError,
    RequestError,
    ServerStartingError,
    StepTimeoutError,
)

Handler = Callable[["Session"], Awaitable[None]]


class Session:
    """One connection as the peer's script sees it."""

    def __init__(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.socket = socket
        self.headers = socket.request.headers
        self.resume = parse_qs(urlsplit(socket.request.path).query).get("resume", [None])[0]

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.socket.recv())
        return message

    async def observe(self, request: dict[str, Any] | None = None, **fields: Any) -> None:
        """Answer with an observation; the request's id is echoed, a reset gets the token `t`."""
        metadata = {"session": "t"}
        if request is not None and request["type"] == "step":
            metadata = {"request_id": request["data"]["metadata"]["request_id"]}
        observation = {"task_id": "level1/e01_RowSoftmax", "metadata": fields.pop("metadata", metadata), **fields}
        frame = {"observation": observation, "reward": fields.get("reward"), "done": fields.get("done", False)}
        observation.pop("reward", None)
        observation.pop("done", None)
        await self.socket.send(json.dumps({"type": "observation", "data": frame}))

    async def refuse(self, code: str) -> None:
        frame = {"type": "error", "data": {"message": "no", "code": code}}
        await self.socket.send(json.dumps(frame))

    def cut(self) -> None:
        """Break the connection without a closing handshake."""
        self.socket.transport.abort()


class Peer:
    """Plays one script for each connection, in order; the last one again for every further connection."""

    def __init__(self, *scripts: Handler) -> None:
        self.scripts = list(scripts)
        self.sessions: list[Session] = []
        self.received: list[dict[str, Any]] = []

    async def handle(self, socket: ServerConnection) -> None:
        session = Session(socket)
        self.sessions.append(session)
        script = self.scripts[min(len(self.sessions), len(self.scripts)) - 1]
        await script(session)
        await socket.wait_closed()


@asynccontextmanager
async def playing(*scripts: Handler, **options: Any) -> AsyncIterator[tuple[Peer, KernelEnv]]:
    peer = Peer(*scripts)
    async with serve(peer.handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with KernelEnv(base_url=f"http://127.0.0.1:{port}", **options) as env:
            yield peer, env


async def cooperate(session: Session) -> None:
    """Answer every request as a good server does."""
    async for raw in session.socket:
        request = json.loads(raw)
        if request["type"] == "state":
            await session.socket.send(json.dumps({"type": "state", "data": {"episode_id": "e", "step_count": 1}}))
        elif request["type"] != "close":
            await session.observe(request, reward=1.5 if request["type"] == "step" else None)


async def test_reward_and_done_are_in_the_observation_too() -> None:
    async def script(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.observe(await session.receive(), reward=0.7, done=True, stage="passed", field_of_tomorrow=1)

    async with playing(script) as (_, env):
        first = await env.reset(seed=0)
        assert first.reward is None
        result = await env.step(KernelAction(code="x"))
    assert (result.reward, result.done) == (0.7, True)
    assert (result.observation.reward, result.observation.done) == (0.7, True)
    assert result.observation.stage == "passed"


async def test_state() -> None:
    async with playing(cooperate) as (_, env):
        await env.reset()
        state = await env.state()
    assert (state.episode_id, state.step_count) == ("e", 1)


async def test_credentials_of_the_environment_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_ENV_TOKEN", "abc")
    monkeypatch.setenv("MODAL_PROXY_KEY", "key")
    monkeypatch.setenv("MODAL_PROXY_SECRET", "secret")
    async with playing(cooperate, headers={"X-Run": "7"}) as (peer, env):
        await env.reset()
        headers = peer.sessions[0].headers
        assert headers["Authorization"] == "Bearer abc"
        assert (headers["Modal-Key"], headers["Modal-Secret"]) == ("key", "secret")
        assert headers["X-Run"] == "7"
        sibling = await env.new_session()
        await sibling.reset()
        assert peer.sessions[1].headers["Authorization"] == "Bearer abc"


async def test_given_headers_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_ENV_TOKEN", "abc")
    async with playing(cooperate, headers={"authorization": "Bearer other"}) as (peer, env):
        await env.reset()
        assert peer.sessions[0].headers.get_all("Authorization") == ["Bearer other"]
        assert peer.sessions[0].headers["X-Kernel-Env-Token"] == "abc"


@pytest.mark.parametrize("call", ["step", "state"])
async def test_no_call_reaches_a_session_that_was_not_reset(call: str) -> None:
    async with playing(cooperate) as (_, env):
        with pytest.raises(RequestError, match=r"reset\(\) first \(code: NOT_RESET\)"):
            await (env.step(KernelAction(code="x")) if call == "step" else env.state())


async def test_a_step_goes_on_after_a_dropped_connection() -> None:
    sent: list[dict[str, Any]] = []

    async def first(session: Session) -> None:
        await session.receive()
        await session.observe()
        sent.append(await session.receive())
        session.cut()

    async def second(session: Session) -> None:
        sent.append(await session.receive())
        await session.observe(sent[-1], reward=2.0)

    async with playing(first, second) as (peer, env):
        await env.reset()
        result = await env.step(KernelAction(code="x"))
        assert [session.resume for session in peer.sessions] == [None, "t"]
    assert result.reward == 2.0
    assert sent[0] == sent[1]


async def test_an_idle_connection_that_dropped_is_resumed() -> None:
    async def first(session: Session) -> None:
        await session.receive()
        await session.observe()
        session.cut()

    async with playing(first, cooperate) as (peer, env):
        await env.reset()
        await peer.sessions[0].socket.wait_closed()
        assert (await env.step(KernelAction(code="x"))).reward == 1.5
        assert (await env.step(KernelAction(code="x"))).reward == 1.5
        assert [session.resume for session in peer.sessions] == [None, "t"]


async def test_an_episode_that_the_server_lost_is_an_error_and_reset_recovers() -> None:
    async def first(session: Session) -> None:
        await session.receive()
        await session.observe()
        session.cut()

    async def second(session: Session) -> None:
        await session.refuse("EPISODE_LOST")
        await session.socket.close()

    async with playing(first, second, cooperate) as (peer, env):
        await env.reset()
        await peer.sessions[0].socket.wait_closed()
        with pytest.raises(EpisodeLostError, match=r"\(code: EPISODE_LOST\).*reset\(\)"):
            await env.step(KernelAction(code="x"))
        with pytest.raises(RequestError, match="NOT_RESET"):
            await env.step(KernelAction(code="x"))
        await env.reset()
        assert (await env.step(KernelAction(code="x"))).reward == 1.5
        assert [session.resume for session in peer.sessions] == [None, "t", None]


async def test_a_server_without_tokens_gets_no_step_on_another_connection() -> None:
    async def first(session: Session) -> None:
        await session.receive()
        await session.observe(metadata={})
        session.cut()

    async with playing(first, cooperate) as (peer, env):
        await env.reset()
        await peer.sessions[0].socket.wait_closed()
        with pytest.raises(EpisodeLostError):
            await env.step(KernelAction(code="x"))
        assert len(peer.sessions) == 1


async def test_resuming_is_bounded() -> None:
    async def first(session: Session) -> None:
        await session.receive()
        await session.observe()
        session.cut()

    async def again(session: Session) -> None:
        session.cut()

    async with playing(first, again, resume_wait_s=0.5) as (peer, env):
        await env.reset()
        with pytest.raises(EpisodeLostError, match="connection was lost"):
            await env.step(KernelAction(code="x"))
        assert 2 <= len(peer.sessions) <= 6


async def test_what_is_told_of_a_server_that_is_gone_does_not_hold_the_episodes_token() -> None:
    async def first(session: Session) -> None:
        await session.receive()
        await session.observe(metadata={"session": "secret-token"})
        await session.receive()

    async with serve(Peer(first).handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        env = KernelEnv(base_url=f"http://127.0.0.1:{port}", resume_wait_s=0.5)
        await env.reset()
        step = asyncio.create_task(env.step(KernelAction(code="x")))
        server.close()
        with pytest.raises(EpisodeLostError, match=f"127.0.0.1:{port}/ws: .*nothing listens there") as info:
            await step
    assert "secret-token" not in str(info.value)
    await env.close()


async def test_a_late_reply_is_never_taken_for_another_request() -> None:
    release = asyncio.Event()

    async def slow(session: Session) -> None:
        await session.receive()
        await session.observe()
        request = await session.receive()
        await release.wait()
        await session.observe(request, reward=9.0)

    async with playing(slow, cooperate, message_timeout_s=0.3) as (peer, env):
        await env.reset()
        with pytest.raises(StepTimeoutError, match=r"within 0.3 s \(code: STEP_TIMEOUT\)"):
            await env.step(KernelAction(code="x"))
        release.set()
        with pytest.raises(RequestError, match="NOT_RESET"):
            await env.step(KernelAction(code="x"))
        await env.reset()
        assert (await env.step(KernelAction(code="y"))).reward == 1.5
        assert len(peer.sessions) == 2


async def test_a_reply_to_another_request_is_refused() -> None:
    async def script(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()
        await session.observe(metadata={"request_id": "other"}, reward=9.0)

    async with playing(script) as (_, env):
        await env.reset()
        with pytest.raises(EpisodeLostError, match="REPLY_MISMATCH"):
            await env.step(KernelAction(code="x"))


async def test_the_callers_own_request_id_is_kept() -> None:
    async with playing(cooperate) as (_, env):
        await env.reset()
        result = await env.step(KernelAction(code="x", metadata={"request_id": "mine"}))
    assert result.observation.metadata["request_id"] == "mine"


async def test_a_cancelled_step_gives_its_connection_up() -> None:
    async def silent(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()

    async with playing(silent, cooperate) as (peer, env):
        await env.reset()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.step(KernelAction(code="x")), 0.2)
        await asyncio.wait_for(peer.sessions[0].socket.wait_closed(), 10.0)
        with pytest.raises(RequestError, match="NOT_RESET"):
            await env.step(KernelAction(code="x"))
        await env.reset()
        assert (await env.step(KernelAction(code="y"))).reward == 1.5


async def test_one_call_at_a_time() -> None:
    async def silent(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()

    async with playing(silent, cooperate) as (_, env):
        await env.reset()
        running = asyncio.create_task(env.step(KernelAction(code="x")))
        await asyncio.sleep(0.1)
        with pytest.raises(RequestError, match="BUSY"):
            await env.step(KernelAction(code="y"))
        await env.reset()
        with pytest.raises(EpisodeLostError, match="closed or reset meanwhile"):
            await running
        assert (await env.step(KernelAction(code="z"))).reward == 1.5


async def test_closing_ends_a_running_step() -> None:
    async def silent(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()
        await session.receive()

    async with playing(silent) as (peer, env):
        await env.reset()
        running = asyncio.create_task(env.step(KernelAction(code="x")))
        await asyncio.sleep(0.1)
        await env.close()
        with pytest.raises(EpisodeLostError):
            await running
        assert len(peer.sessions) == 1


async def test_a_full_server_is_waited_for() -> None:
    async def full(session: Session) -> None:
        await session.refuse("CAPACITY_REACHED")
        await session.socket.close()

    async with playing(full, full, cooperate) as (peer, env):
        await env.reset()
        assert len(peer.sessions) == 3


async def test_waiting_for_a_full_server_is_bounded() -> None:
    async def full(session: Session) -> None:
        await session.refuse("CAPACITY_REACHED")
        await session.socket.close()

    async with playing(full, capacity_wait_s=0.0) as (_, env):
        with pytest.raises(
            CapacityError, match=r"Server error: no \(code: CAPACITY_REACHED\).*MAX_SESSIONS"
        ) as info:
            await env.reset()
    assert info.value.code == "CAPACITY_REACHED"
    assert isinstance(info.value, RuntimeError)


async def test_a_starting_server_is_waited_for_on_the_same_connection() -> None:
    async def starting(session: Session) -> None:
        await session.receive()
        await session.refuse("SERVER_STARTING")
        await cooperate(session)

    async with playing(starting) as (peer, env):
        await env.reset()
        assert len(peer.sessions) == 1
    async with playing(starting, start_wait_s=0.0) as (_, env):
        with pytest.raises(ServerStartingError, match="GET /health"):
            await env.reset()


async def test_a_refused_step_leaves_the_episode_alone() -> None:
    async def script(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()
        await session.refuse("TOO_LARGE")
        await cooperate(session)

    async with playing(script) as (_, env):
        await env.reset()
        with pytest.raises(RequestError) as info:
            await env.step(KernelAction(code="x"))
        assert info.value.code == "TOO_LARGE"
        assert (await env.step(KernelAction(code="x"))).reward == 1.5


async def test_a_frame_beyond_the_limit_is_refused_at_once_and_leaves_the_episode_alone() -> None:
    """Sent again it would be refused again, for as long as resuming is tried."""
    async with playing(cooperate) as (peer, env):
        await env.reset()
        with pytest.raises(RequestError, match="takes no step of this size") as info:
            await env.step(KernelAction(code="x" * (2 << 20)))
        assert info.value.code == "TOO_LARGE"
        assert (await env.step(KernelAction(code="x"))).reward == 1.5
        assert [session.resume for session in peer.sessions] == [None, "t"]


async def test_a_reply_beyond_the_limit_is_an_error_at_once() -> None:
    async def script(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.observe(await session.receive(), feedback="x" * (1 << 20))

    async with playing(script, max_message_size_mb=0.5) as (peer, env):
        await env.reset()
        with pytest.raises(KernelEnvError, match="max_message_size_mb"):
            await env.step(KernelAction(code="x"))
        assert len(peer.sessions) == 1


async def test_a_step_takes_an_action() -> None:
    async with playing(cooperate) as (_, env):
        await env.reset()
        with pytest.raises(TypeError, match=r"step takes KernelAction\(code=...\), not a str"):
            await env.step("code")  # type: ignore[arg-type]
        assert (await env.step(KernelAction(code="x"))).reward == 1.5


async def test_who_waits_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_env.client.SILENT_S", 0.0)

    async def full(session: Session) -> None:
        await session.refuse("CAPACITY_REACHED")
        await session.socket.close()

    async def drops(session: Session) -> None:
        await session.receive()
        await session.observe()
        await session.receive()
        session.cut()

    async with playing(full, full, drops, cooperate) as (_, env):
        await env.reset()
        await env.step(KernelAction(code="x"))
    full_told, lost_told = [record.message for record in caplog.records if record.name == "kernel_env.client"]
    assert full_told.endswith("is full: reset goes on waiting, 1800 s at most")
    assert lost_told.endswith("resuming the episode, for 240 s at most")


async def test_an_unknown_code_is_a_plain_error() -> None:
    async def script(session: Session) -> None:
        await session.receive()
        await session.refuse("EXECUTION_ERROR")

    async with playing(script) as (_, env):
        with pytest.raises(KernelEnvError, match=r"\(code: EXECUTION_ERROR\)") as info:
            await env.reset()
    assert type(info.value) is KernelEnvError


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (HTTPStatus.UNAUTHORIZED, AuthenticationError),
        (HTTPStatus.FORBIDDEN, AuthenticationError),
        (HTTPStatus.NOT_FOUND, ConnectionError),
        (HTTPStatus.SERVICE_UNAVAILABLE, ServerStartingError),
    ],
)
async def test_refused_handshakes_have_types(status: HTTPStatus, error: type[Exception]) -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(status, "no\n")

    async with serve(Peer(cooperate).handle, "127.0.0.1", 0, process_request=refuse) as server:
        env = KernelEnv(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", start_wait_s=0.0)
        with pytest.raises(error):
            await env.connect()
        with pytest.raises(error) as info:
            await env.reset()
    by_path = status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
    assert ("base_url is the server's address alone" in str(info.value)) == by_path


async def test_no_server_is_a_connection_error() -> None:
    async with serve(Peer(cooperate).handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    env = KernelEnv(base_url=f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}.*nothing listens there: `kernel-env serve`"):
        await env.reset()


def test_the_blocking_client_plays_an_episode() -> None:
    started, stop = threading.Event(), threading.Event()
    ports: list[int] = []

    async def run() -> None:
        async with serve(Peer(cooperate).handle, "127.0.0.1", 0) as server:
            ports.append(server.sockets[0].getsockname()[1])
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(10)
        with KernelEnv(base_url=f"http://127.0.0.1:{ports[0]}").sync() as env:
            assert env.reset(seed=0).observation.task_id == "level1/e01_RowSoftmax"
            assert env.step(KernelAction(code="x")).reward == 1.5
            assert env.state().step_count == 1
    finally:
        stop.set()
        thread.join(10)


def test_importing_the_package_is_cheap() -> None:
    program = (
        "import sys, time; t = time.process_time(); import kernel_env; spent = time.process_time() - t;"
        "heavy = {'torch', 'openenv', 'gradio', 'pydantic', 'triton'} & set(sys.modules);"
        "assert not heavy, heavy; assert spent < 0.3, spent; assert 'KernelEnv' in dir(kernel_env)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_importing_the_client_leaves_torch_out() -> None:
    program = (
        "import sys; sys.modules['gradio'] = None;"  # most of the time, and nothing of ours
        "import kernel_env.client; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
