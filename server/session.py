"""Sessions: a client's place on the server, its episode, and what survives a dropped connection.

A session has at most one owner (a connection). Only owned sessions count against `max_sessions`. When the
owner goes away its running evaluation is cancelled and an unfinished episode is parked for `resume_s`;
whoever presents the session's token takes it up again, or takes it over from an owner that still lives. The
place of a session idle for `idle_s` goes to a newcomer that finds no other, and its episode is parked. A
step that was answered is stored under its request id and never evaluated twice. Frames are `protocol`'s,
sockets `websocket`'s.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from .backend import Backend
from .episode import Episode, fresh_state
from .protocol import Refusal, observation_frame, state_frame
from .requests import ResetRequest, StepRequest

PARKED_CAP = 1024
CANCEL_S = 5.0


class Owner(Protocol):
    """The connection that a session is attached to."""

    def evict(self, reason: str) -> None:
        """The session is no longer this connection's: close it."""


@dataclass(frozen=True)
class _Answer:
    """The reply to the last completed step."""

    request_id: str | None
    digest: str
    frame: str


@dataclass(frozen=True)
class _Pending:
    request_id: str | None
    digest: str
    task: asyncio.Task[str]


class Session:
    """One client's requests. Calls come one at a time from the owner; a new owner may find a step running."""

    def __init__(self, backend: Backend, lost: bool) -> None:
        self.token = secrets.token_urlsafe(24)
        self.owner: Owner | None = None
        self._backend = backend
        self._lost = lost
        self._episode: Episode | None = None
        self._answer: _Answer | None = None
        self._pending: _Pending | None = None
        self._used = time.monotonic()
        self._busy = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Around each request."""
        self._busy = True
        try:
            yield
        finally:
            self._busy, self._used = False, time.monotonic()

    def given_to(self, owner: Owner) -> Session:
        self.owner, self._used = owner, time.monotonic()
        return self

    def idle_for(self, now: float) -> float:
        """Seconds since the last request was answered."""
        return 0.0 if self._busy else now - self._used

    async def reset(self, data: dict[str, Any]) -> str:
        """Begin an episode; the reply's frame. Raises `Refusal`, and then the old episode goes on."""
        episode = await Episode.begin(self._backend, ResetRequest.parse(data))
        await self._settle(cancel=True)
        self._episode, self._answer, self._lost = episode, None, False
        opening = episode.opening()
        opening.metadata |= {"session": self.token, "resume_s": self._backend.settings.resume_s}
        return observation_frame(opening)

    async def step(self, data: dict[str, Any]) -> str:
        """Evaluate a submission, or find the reply to the same request; the reply's frame. Raises `Refusal`."""
        request = StepRequest.parse(data, self._backend.settings.max_code_bytes)
        episode = self._require()
        running = self._pending
        if running is not None and _same(running, request):
            return await asyncio.shield(running.task)
        await self._settle(cancel=False)
        if self._answer is not None and _same(self._answer, request):
            return self._answer.frame
        episode.check_open()
        task = asyncio.create_task(self._submit(episode, request))
        self._pending = _Pending(request.request_id, request.digest, task)
        return await asyncio.shield(task)

    def state(self) -> str:
        """The state's frame; that of an empty session before the first reset. Raises `Refusal`."""
        if self._lost:
            self._require()
        return state_frame(self._episode.state if self._episode else fresh_state(self._backend))

    def abandon(self) -> None:
        """The owner is gone: stop the running evaluation. Its submission may be sent again."""
        if self._pending is not None:
            self._pending.task.cancel()

    def worth_parking(self, finished: bool) -> bool:
        """Whether a client may come back for this; `finished` says that it closed in good order."""
        return self._episode is not None and not (finished and self._episode.done)

    async def _submit(self, episode: Episode, request: StepRequest) -> str:
        try:
            frame = observation_frame(await episode.submit(request))
            self._answer = _Answer(request.request_id, request.digest, frame)
            return frame
        finally:
            if self._pending is not None and self._pending.task is asyncio.current_task():
                self._pending = None

    async def _settle(self, cancel: bool) -> None:
        """Wait for the running step, ended early where `cancel`; its result is stored, if it has one."""
        if self._pending is not None:
            task = self._pending.task
            if cancel:
                task.cancel()
            bound = CANCEL_S if cancel or task.cancelling() else None
            await asyncio.wait({task}, timeout=bound)

    def _require(self) -> Episode:
        if self._episode is not None:
            return self._episode
        if self._lost:
            self._lost = False
            raise Refusal(
                "EPISODE_LOST",
                "the episode is gone: its token is unknown or expired; send a reset to begin another",
            )
        raise Refusal("NOT_RESET", "no episode yet: send a reset first")


def _same(earlier: _Answer | _Pending, request: StepRequest) -> bool:
    """Whether `request` is the earlier one, sent again. Raises `Refusal` for one id with two texts."""
    if request.request_id is None or request.request_id != earlier.request_id:
        return False
    if isinstance(earlier, _Pending) and earlier.task.cancelling():
        return False
    if request.digest != earlier.digest:
        raise Refusal(
            "VALIDATION_ERROR",
            "metadata.request_id was used for other code in this episode: give each submission an id of its own",
        )
    return True


class Sessions:
    """All sessions of a server: admission, parking and resumption."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._active: dict[str, Session] = {}
        self._parked: OrderedDict[str, tuple[Session, asyncio.TimerHandle]] = OrderedDict()

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def parked(self) -> int:
        return len(self._parked)

    def attach(self, owner: Owner, token: str | None) -> Session:
        """A session for `owner`: that of `token` where it lives, else a fresh one. Raises `Refusal` when full."""
        held = self._active.get(token) if token else None
        if held is not None:
            if held.owner is not None:
                held.owner.evict("the session was taken over by another connection")
            return held.given_to(owner)
        self._make_room()
        parked = self._parked.pop(token, None) if token else None
        if parked is not None:
            session, expiry = parked
            expiry.cancel()
        else:
            session = Session(self._backend, lost=token is not None)
        self._active[session.token] = session
        return session.given_to(owner)

    def detach(self, session: Session, owner: Owner, keep: bool, finished: bool) -> None:
        """`owner` is gone: free its place at once, and park the episode where `keep`."""
        if session.owner is not owner:
            return
        session.owner = None
        session.abandon()
        del self._active[session.token]
        if keep and self._backend.settings.resume_s > 0 and session.worth_parking(finished):
            self._park(session)

    def _make_room(self) -> None:
        """Raises `Refusal` when every place is taken by a session in use."""
        limit = self._backend.settings.max_sessions
        if len(self._active) >= limit and not self._reclaim():
            raise Refusal(
                "CAPACITY_REACHED",
                f"Server at capacity: {len(self._active)}/{limit} sessions active; try again later, or raise"
                " KERNEL_ENV_MAX_SESSIONS",
                active_sessions=len(self._active),
                max_sessions=limit,
            )

    def _reclaim(self) -> bool:
        """Take the place of the session that was idle longest, if for `idle_s`: its client forgot to close."""
        now = time.monotonic()
        session = max(self._active.values(), key=lambda active: active.idle_for(now))
        if session.owner is None or session.idle_for(now) < self._backend.settings.idle_s:
            return False
        owner = session.owner
        self.detach(session, owner, keep=True, finished=False)
        owner.evict("idle for KERNEL_ENV_IDLE_S while others wait for a place")
        return True

    def _park(self, session: Session) -> None:
        while len(self._parked) >= PARKED_CAP:
            self._parked.popitem(last=False)[1][1].cancel()
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(self._backend.settings.resume_s, self._parked.pop, session.token, None)
        self._parked[session.token] = (session, expiry)
