"""Where submissions are judged: a pool of this process's own, or a server. Two implementations of `Evaluator`.

`evaluate` returns a verdict of the submission as a dict of the observation's fields, or raises: `Fault` where
nothing was learned of it, `EvaluatorError` where nothing more can be. Each is entered with `async with`, which
starts it and ends all that it started. torch is never imported here.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from kernel_env import KernelEnv
    from kernel_env.server.config import Settings
    from kernel_env.server.outcome import Device, Evaluation
    from kernel_env.server.pool import Pool
    from kernel_env.server.tasks import TaskSet

READY_S = 300.0
LIST_S = 60.0
# While one submission of a device is timed, the next ones are checked and built.
EACH_DEVICE = 2
SERVER_AT_ONCE = 8

Verdict = dict[str, Any]


class EvaluatorError(RuntimeError):
    """No submission can be judged; the text says why."""


class Fault(RuntimeError):
    """The environment's fault: this submission was not judged. `again`: another try may help."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again


class Evaluator(Protocol):
    at_once: int

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def task_ids(self) -> Sequence[str]:
        """Of the tasks that can be judged. Raises `EvaluatorError`."""

    async def evaluate(self, task_id: str, language: str, code: str) -> Verdict:
        """Raises `Fault` and `EvaluatorError`."""


class LocalEvaluator:
    """A pool of this process's own: by default a worker for each device that `settings` names."""

    def __init__(self, settings: Settings, tasks: TaskSet, pool: Pool) -> None:
        self._settings, self._tasks = settings, tasks
        self.pool = pool
        self.at_once = EACH_DEVICE
        self._device: Device | None = None

    async def __aenter__(self) -> Self:
        await self.pool.start()
        try:
            self._device = await self.pool.ready(READY_S)
            if self._device is None:
                told = self.pool.health()["message"] or "none became ready"
                raise EvaluatorError(f"no device can evaluate: {told}")
        except BaseException:
            await self.pool.close()
            raise
        self.at_once = EACH_DEVICE * len(self.pool.health()["devices"])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()

    async def task_ids(self) -> Sequence[str]:
        return self._tasks.ids()

    async def evaluate(self, task_id: str, language: str, code: str) -> Verdict:
        from kernel_env.server import languages
        from kernel_env.server.outcome import EvaluationRequest, TaskSource

        assert self._device is not None
        try:
            languages.check_runnable(language, self._device)
        except languages.LanguageError as error:
            raise Fault(str(error), False) from None
        task = self._tasks.get(task_id)
        request = EvaluationRequest(
            id=uuid.uuid4().hex,
            task=TaskSource(id=task.id, source=task.source, hash=task.hash),
            language=language,
            code=code,
            budget_s=self._settings.step_timeout_s,
        )
        evaluation = await self.pool.evaluate(request)
        if evaluation.outcome.kind == "infrastructure" and self.pool.health()["state"] == "failed":
            raise EvaluatorError(evaluation.outcome.message)
        return verdict(evaluation, task_id, language, self._settings)


def verdict(evaluation: Evaluation, task_id: str, language: str, settings: Settings) -> Verdict:
    """What an episode of one step would have shown. Raises `Fault`."""
    from kernel_env.server.outcome import Infrastructure

    outcome = evaluation.outcome
    if isinstance(outcome, Infrastructure):
        raise Fault(outcome.message, again=not outcome.task)
    return shown(evaluation, task_id, language, settings)


def shown(evaluation: Evaluation, task_id: str, language: str, settings: Settings) -> Verdict:
    """The same, faults of the environment included."""
    from kernel_env.server.feedback import feedback
    from kernel_env.server.observation import facts, numbers
    from kernel_env.server.outcome import Passed
    from kernel_env.server.reward import reward

    outcome = evaluation.outcome
    return {
        "task_id": task_id,
        "language": language,
        "stage": outcome.stage,
        "feedback": feedback(outcome),
        "correct": isinstance(outcome, Passed),
        "reward": reward(outcome, settings.reward),
        **numbers(outcome),
        "metadata": {**facts(evaluation), "precision": settings.precision},
    }


class ServerEvaluator:
    """A running server; every submission plays an episode of its own on one of `at_once` connections."""

    def __init__(self, url: str, at_once: int = SERVER_AT_ONCE) -> None:
        self._url = url.rstrip("/")
        self.at_once = at_once
        self._idle: list[KernelEnv] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def task_ids(self) -> Sequence[str]:
        import httpx

        from kernel_env.handshake import request_headers

        ids: list[str] = []
        headers = request_headers(os.environ, None, None)
        try:
            async with httpx.AsyncClient(base_url=self._url, headers=headers, timeout=LIST_S) as client:
                for split in ("train", "eval"):
                    reply = await client.post("/kernel_env/tasks", json={"split": split})
                    reply.raise_for_status()
                    ids += [task["task_id"] for task in reply.json()["tasks"] if task["available"]]
        except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
            raise EvaluatorError(f"{self._url} does not list its tasks: {error}") from error
        return ids

    async def evaluate(self, task_id: str, language: str, code: str) -> Verdict:
        from kernel_env import AuthenticationError, KernelEnv, KernelEnvError, RequestError

        env = self._idle.pop() if self._idle else KernelEnv(base_url=self._url)
        kept = False
        try:
            seen = await self._play(env, task_id, language, code)
            kept = True
        except AuthenticationError as error:
            raise EvaluatorError(str(error)) from error
        except RequestError as error:
            raise Fault(str(error), again=False) from error
        except (KernelEnvError, ConnectionError) as error:
            raise Fault(str(error), again=True) from error
        finally:
            if kept:
                self._idle.append(env)
            else:
                await env.close()
        if seen["infrastructure_fault"]:
            raise Fault(seen["feedback"], again=not seen["done"])
        return seen

    async def _play(self, env: KernelEnv, task_id: str, language: str, code: str) -> Verdict:
        from kernel_env import KernelAction

        await env.reset(task_id=task_id, language=language)
        result = await env.step(KernelAction(code=code))
        return dict(result.observation.model_dump(exclude={"problem"}))
