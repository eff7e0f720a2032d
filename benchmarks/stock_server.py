"""openenv's own server around an environment that does nothing: the cost of its protocol, to compare with.

Every step returns an observation that a step on our mock evaluator gave once, so replies have our size and
fields. `KERNEL_ENV_PORT` and `KERNEL_ENV_MAX_SESSIONS` are read as by ours.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State

from benchmarks.server_overhead import SUBMISSION, TASK
from kernel_env.models import KernelAction, KernelObservation
from kernel_env.server.backend import Backend
from kernel_env.server.config import Settings
from kernel_env.server.episode import Episode
from kernel_env.server.eventlog import EventLog
from kernel_env.server.mock import MockPool
from kernel_env.server.requests import ResetRequest, StepRequest
from kernel_env.server.tasks import TaskSet


class Repeat(Environment[KernelAction, KernelObservation, State]):
    """Answers every step with one observation, under the step's own number."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, observation: KernelObservation) -> None:
        super().__init__()
        self._observation = observation
        self._state = State()

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> KernelObservation:
        self._state = State(episode_id=episode_id)
        return self._observation

    async def step_async(
        self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any
    ) -> KernelObservation:
        self._state.step_count += 1
        return self._observation.model_copy(update={"turn": self._state.step_count})

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> KernelObservation:
        return asyncio.run(self.reset_async(seed, episode_id, **kwargs))

    def step(self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any) -> KernelObservation:
        return asyncio.run(self.step_async(action, timeout_s, **kwargs))

    @property
    def state(self) -> State:
        return self._state


async def observed(code: str) -> KernelObservation:
    """What one step with `code` gives on our mock evaluator."""
    settings = Settings(evaluator="mock")
    backend = Backend(settings, TaskSet.load(settings), MockPool(settings), EventLog([]))
    episode = await Episode.begin(backend, ResetRequest(task_id=TASK))
    return await episode.submit(StepRequest(code))


def main() -> None:
    settings = Settings.from_env()
    observation = asyncio.run(observed(Path(SUBMISSION).read_text()))
    app = create_app(
        partial(Repeat, observation),
        KernelAction,
        KernelObservation,
        max_concurrent_envs=settings.max_sessions,
    )
    uvicorn.run(app, host="127.0.0.1", port=settings.port, log_level="warning")


if __name__ == "__main__":
    main()
