"""Evaluations by a running server, through the client that trainers use: an episode for each program.

The task is one of the server's, by id or found by its text's hash, or sent along where the server takes tasks of
its clients. A connection that is lost gives no verdict; it is tried again in a new episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from openenv.core.env_client import EnvClient

from kernel_env.client import KernelEnv
from kernel_env.errors import (
    AuthenticationError,
    KernelEnvError,
    RequestError,
    TaskUnavailableError,
    UserTasksError,
)
from kernel_env.models import KernelAction

from .config import Language
from .errors import ConfigError, EvaluatorError
from .metrics import Metrics, failed, from_observation
from .task import task_hash


class ServerJudge:
    """See `judges.Judge`."""

    def __init__(self, url: str, token: str | None, headers: Mapping[str, str], task_id: str | None) -> None:
        self._url = url
        self._token = token
        self._headers = headers
        self._task_id = task_id
        self._problem: str | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def evaluate(self, initial_code: str, code: str, language: Language) -> Metrics:
        try:
            async with self._client() as env:
                await self._reset(env, initial_code, language)
                observation = (await env.step(KernelAction(code=code))).observation
        except (ConfigError, EvaluatorError):
            raise
        except (AuthenticationError, RequestError) as error:
            raise EvaluatorError(f"{self._url}: {error}", fatal=True) from error
        except (KernelEnvError, ConnectionError) as error:
            return failed(f"{self._url}: {error}", "infrastructure", infrastructure=True)
        return from_observation(observation.model_dump())

    async def problem(self, initial_code: str, language: Language) -> str:
        async with self._lock:
            if self._problem is None:
                try:
                    async with self._client() as env:
                        self._problem = str((await self._reset(env, initial_code, language))["problem"])
                except (KernelEnvError, ConnectionError) as error:
                    raise EvaluatorError(f"{self._url}: {error}", fatal=True) from error
        return self._problem

    def _client(self) -> KernelEnv:
        return KernelEnv(base_url=self._url, token=self._token, headers=self._headers)

    async def _reset(self, env: EnvClient[Any, Any, Any], initial_code: str, language: Language) -> dict[str, Any]:
        """Begin an episode of the task; the observation's fields."""
        named = {"task_id": self._task_id} if self._task_id else {"task_source": initial_code}
        try:
            observation = (await env.reset(language=language, **named)).observation
        except (UserTasksError, TaskUnavailableError) as error:
            raise ConfigError(f"{self._url}: {error}") from error
        theirs = observation.metadata.get("task_hash")
        if theirs != task_hash(initial_code):
            raise ConfigError(
                f"{self._url} has another text for the task {observation.task_id}: start from its text"
            )
        return dict(observation.model_dump())
