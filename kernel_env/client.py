"""`KernelEnv`: plays episodes on a kernel_env server, async by default, blocking through `.sync()`.

One client is one session, one call at a time. The invariants that stock clients lack:
- a `step` only ever reaches the episode that its `reset` began. After a dropped connection the episode is
  resumed and the same step sent again under the same request id, which the server answers once; where that
  cannot be done the step raises `EpisodeLostError` instead of landing in a fresh session;
- a reply is never paired with another request: giving up a request gives up its connection and episode;
- waiting is bounded: for a full or starting server, for a lost connection, and for the reply.
Scheduling, retries of evaluations and judging submissions are the server's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State as SocketState

from .errors import (
    CapacityError,
    EpisodeLostError,
    ServerStartingError,
    StepTimeoutError,
    error_from_frame,
    error_of,
)
from .handshake import oversize, refusal, request_headers
from .models import KernelAction, KernelObservation, KernelState

__all__ = ["KernelAction", "KernelEnv", "KernelObservation", "KernelState"]

RESET_ATTEMPTS = 4
FULL_DELAY_S = (1.0, 5.0)
RESUME_DELAY_S = (0.1, 5.0)
SILENT_S = 10.0

_logger = logging.getLogger(__name__)


class KernelEnv(EnvClient[KernelAction, KernelObservation, KernelState]):
    """Client of a kernel_env server; also plays on any openenv server with the same action and observation.

        with KernelEnv(base_url="http://localhost:8000").sync() as env:
            observation = env.reset(seed=0).observation
            result = env.step(KernelAction(code=source))
            print(result.observation.stage, result.observation.feedback, result.reward)

    `reset(seed=None, task_id=None, split="train", language="triton")` begins an episode. All methods raise
    `KernelEnvError`s (see `kernel_env.errors`), or `ConnectionError` where no server answers at all.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 30.0,
        message_timeout_s: float = 1800.0,
        max_message_size_mb: float = 16.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = None,
        provider: Any = None,
        mode: str | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        capacity_wait_s: float = 1800.0,
        start_wait_s: float = 300.0,
        resume_wait_s: float = 240.0,
    ) -> None:
        """All durations are seconds.

        `message_timeout_s` bounds a step as a whole, queueing on the server and resuming included.
        `capacity_wait_s` and `start_wait_s` bound how long `reset` waits for a free session and for a
        server that is starting; `resume_wait_s` bounds how long a step tries to get a dropped connection
        back (the server keeps an episode for KERNEL_ENV_RESUME_S). `token` defaults to KERNEL_ENV_TOKEN;
        MODAL_PROXY_KEY and MODAL_PROXY_SECRET are sent when both are set; `headers` go on top.
        """
        super().__init__(
            base_url=base_url,
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_size_mb=max_message_size_mb,
            websocket_ping_interval_s=websocket_ping_interval_s,
            websocket_ping_timeout_s=websocket_ping_timeout_s,
            provider=provider,
            mode=mode,
            headers=request_headers(os.environ, token, headers),
        )
        self._capacity_wait_s = capacity_wait_s
        self._start_wait_s = start_wait_s
        self._resume_wait_s = resume_wait_s
        self._episode: _Episode | None = None
        self._running: object | None = None
        self._opening = asyncio.Lock()
        self._connecting: asyncio.Task[Any] | None = None

    async def new_session(self) -> KernelEnv:
        """A further, connected client of the same server; closed with this one."""
        client = cast(KernelEnv, await super().new_session())
        client._capacity_wait_s = self._capacity_wait_s
        client._start_wait_s = self._start_wait_s
        client._resume_wait_s = self._resume_wait_s
        return client

    # The conversions that EnvClient asks for.

    def _step_payload(self, action: KernelAction) -> dict[str, Any]:
        if not isinstance(action, KernelAction):
            raise TypeError(f"step takes KernelAction(code=...), not a {type(action).__name__}")
        return {"code": action.code, "metadata": dict(action.metadata)}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[KernelObservation]:
        """Fields that this version does not know are left out: a newer server may send more."""
        fields = {
            name: value
            for name, value in payload.get("observation", {}).items()
            if name in KernelObservation.model_fields
        }
        if payload.get("metadata"):
            fields["metadata"] = payload["metadata"]
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        observation = KernelObservation(**{**fields, "reward": reward, "done": done})
        return StepResult(observation, reward, done, observation.metadata)

    def _parse_state(self, payload: dict[str, Any]) -> KernelState:
        return KernelState(**payload)

    # Episodes.

    async def _reset_async(self, **kwargs: Any) -> StepResult[KernelObservation]:
        """Begin an episode; a call that still runs on this client is given up for it."""
        if self._running is not None:
            self._drop()
        self._episode = None
        running = self._running = object()
        try:
            socket, data = await self._begin({"type": "reset", "data": kwargs}, running)
            result = self._parse_result(data)
            self._episode = _Episode(socket, result.observation.metadata.get("session"))
            return result
        finally:
            self._finish(running)

    async def _begin(self, message: dict[str, Any], running: object) -> tuple[ClientConnection, dict[str, Any]]:
        """Send a reset, waiting while the server is full or starting, and over a connection that dropped."""
        started = time.monotonic()
        delays = _delays(*FULL_DELAY_S)
        dropped = 0
        told = False
        while True:
            delay = next(delays)
            waited = time.monotonic() - started + delay
            try:
                socket = await self._open(running)
                return socket, await self._exchange(socket, message)
            except (CapacityError, ServerStartingError) as error:
                full = isinstance(error, CapacityError)
                if full:
                    self._drop()
                longest = self._capacity_wait_s if full else self._start_wait_s
                if waited > longest:
                    raise
                if waited > SILENT_S and not told:
                    told = True
                    state = "is full" if full else "has no device ready"
                    _logger.warning("%s %s: reset goes on waiting, %g s at most", self._ws_url, state, longest)
            except ConnectionClosed as error:
                self._check_current(running)
                self._drop()
                dropped += 1
                if dropped == RESET_ATTEMPTS:
                    raise ConnectionError(f"{self._ws_url} closed the connection: {error}") from error
            await asyncio.sleep(delay)
            self._check_current(running)

    async def _step_async(self, action: KernelAction, **kwargs: Any) -> StepResult[KernelObservation]:
        """Submit. A request id of the caller's own, in `action.metadata["request_id"]`, is kept."""
        payload = self._step_payload(action)
        wanted = payload["metadata"].setdefault("request_id", uuid.uuid4().hex)
        episode = self._episode
        result = self._parse_result(await self._play({"type": "step", "data": payload}))
        answered = result.observation.metadata.get("request_id")
        must_answer = episode is not None and episode.token is not None
        if answered != wanted and (must_answer or answered is not None):
            self._drop()
            self._episode = None
            raise EpisodeLostError("the reply belongs to another request", "REPLY_MISMATCH")
        return result

    async def _state_async(self) -> KernelState:
        return self._parse_state(await self._play({"type": "state"}))

    async def _play(self, message: dict[str, Any]) -> dict[str, Any]:
        """One request of the running episode. Given up for any reason, it takes the episode with it."""
        if self._running is not None:
            raise error_of("BUSY", "another call runs on this client; use one client for each episode")
        if self._episode is None:
            raise error_of("NOT_RESET", "no episode is running on this client: call reset() first")
        running = self._running = object()
        try:
            async with asyncio.timeout(self._message_timeout):
                return await self._play_on(self._episode, message, running)
        except (TimeoutError, StepTimeoutError, EpisodeLostError, asyncio.CancelledError) as error:
            if self._running is running:
                self._drop()
                self._episode = None
            if isinstance(error, TimeoutError):
                raise self._timeout(message) from None
            raise
        finally:
            self._finish(running)

    async def _play_on(self, episode: _Episode, message: dict[str, Any], running: object) -> dict[str, Any]:
        """Send the request on the episode's own connection, resumed as often as it drops within the bound."""
        delays = _delays(*RESUME_DELAY_S)
        lost_at: float | None = None
        while True:
            try:
                if not self._attached(episode):
                    episode.socket = await self._resume(episode, running)
                return await self._exchange(episode.socket, message)
            except (ConnectionError, ConnectionClosed, CapacityError, ServerStartingError) as error:
                self._check_current(running)
                self._drop()
                first, lost_at = lost_at is None, lost_at or time.monotonic()
                delay = next(delays)
                if episode.token is None or time.monotonic() - lost_at + delay > self._resume_wait_s:
                    raise EpisodeLostError(f"the connection was lost: {error}", "EPISODE_LOST") from error
                if first:
                    _logger.warning(
                        "the connection was lost (%s): resuming the episode, for %g s at most",
                        error,
                        self._resume_wait_s,
                    )
            await asyncio.sleep(delay)
            self._check_current(running)

    # The connection.

    async def _resume(self, episode: _Episode, running: object) -> ClientConnection:
        """Connect to the episode that the server parked; only a server that gave a token has one."""
        if episode.token is None:
            raise EpisodeLostError("the connection was lost", "EPISODE_LOST")
        self._drop()
        plain = self._ws_url
        resumed = self._ws_url = f"{plain}?resume={quote(episode.token, safe='')}"
        try:
            return await self._open(running)
        finally:
            if self._ws_url == resumed:
                self._ws_url = plain

    async def _open(self, running: object) -> ClientConnection:
        """The connected socket. One opening at a time: a call that was given up meanwhile leaves none."""
        async with self._opening:
            self._check_current(running)
            await self._connect_async()
            if self._running is not running:
                self._drop()
            self._check_current(running)
            return cast(ClientConnection, self._ws)

    async def _connect_async(self) -> KernelEnv:
        self._connecting = asyncio.current_task()
        try:
            await super()._connect_async()
        except ConnectionError as error:
            raise refusal(error) from error.__cause__
        finally:
            self._connecting = None
        return self

    async def _disconnect_async(self) -> None:
        """Closing ends the episode, unless it only cleans up after a connection that could not be opened."""
        if asyncio.current_task() is not self._connecting:
            self._episode = self._running = None
        await super()._disconnect_async()

    async def _exchange(self, socket: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
        """Send one frame and await its reply's data on the same socket; raises what an error frame says."""
        try:
            async with asyncio.timeout(self._message_timeout):
                # A refusing server sends its reason before it closes: the reply may be there to read.
                with suppress(ConnectionClosed):
                    await socket.send(json.dumps(message))
                reply = json.loads(await socket.recv())
        except TimeoutError:
            self._drop(socket)
            raise self._timeout(message) from None
        except asyncio.CancelledError:
            self._drop(socket)
            raise
        except ConnectionClosed as error:
            if large := oversize(error, message["type"]):
                raise large from error
            raise
        data = dict(reply.get("data", {}))
        if reply.get("type") == "error":
            raise error_from_frame(data)
        return data

    def _timeout(self, message: dict[str, Any]) -> StepTimeoutError:
        return StepTimeoutError(
            f"no reply to {message['type']} within {self._message_timeout:g} s", "STEP_TIMEOUT"
        )

    def _drop(self, socket: ClientConnection | None = None) -> None:
        """Let go of the socket (the current one by default); its closing handshake goes on behind."""
        if socket is None or socket is self._ws:
            socket, self._ws = self._ws, None
            loop, self._ws_loop = self._ws_loop, None
            if loop is not asyncio.get_running_loop():
                return
        if socket is not None:
            self._schedule_socket_close(socket)

    def _attached(self, episode: _Episode) -> bool:
        socket = self._ws
        return (
            socket is not None
            and socket is episode.socket
            and socket.state is SocketState.OPEN
            and self._ws_loop is asyncio.get_running_loop()
        )

    def _check_current(self, running: object) -> None:
        if self._running is not running:
            raise EpisodeLostError("the client was closed or reset meanwhile", "EPISODE_LOST")

    def _finish(self, running: object) -> None:
        if self._running is running:
            self._running = None


class _Episode:
    """The socket that carries an episode and the token that resumes it; None where the server gave none."""

    def __init__(self, socket: ClientConnection, token: Any) -> None:
        self.socket = socket
        self.token = token if isinstance(token, str) else None


def _delays(first: float, most: float) -> Iterator[float]:
    """Seconds between attempts: doubling up to `most`, each cut by up to half at random."""
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(2 * delay, most)
