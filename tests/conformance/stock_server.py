"""A server of openenv's own making, with our action and observation: `python stock_server.py PORT`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment

from kernel_env.models import KernelAction, KernelObservation, KernelState


class Echo(Environment[KernelAction, KernelObservation, KernelState]):
    """Rewards a submission with its length and shows it as the feedback."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = KernelState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> KernelObservation:
        self._state = KernelState(episode_id=episode_id, task_id=kwargs.get("task_id", "none"))
        return KernelObservation(problem="echo", task_id=self._state.task_id)

    def step(self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any) -> KernelObservation:
        self._state.step_count += 1
        return KernelObservation(feedback=action.code, turn=self._state.step_count, reward=float(len(action.code)))

    @property
    def state(self) -> KernelState:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Echo, KernelAction, KernelObservation, max_concurrent_envs=8)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
