"""One episode: a task, up to `max_turns` submissions, the best so far.

A task that the evaluator finds it can't run ends the episode at once and is retired on this server.

An episode changes only when an evaluation has returned, all at once: a submission that is refused or
cancelled leaves it as it was. Infrastructure faults use up no turn; after `FAULTS` in a row the episode
ends, so that a loop over `done` ends too. It knows nothing of sockets, sessions and repeated requests.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from kernel_env.extract import extract_code
from kernel_env.models import KernelObservation, KernelState

from .backend import Backend
from .feedback import feedback
from .languages import LanguageError, check_runnable, runnable
from .observation import facts, numbers, where
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure, Outcome, TaskSource
from .problem import problem_text
from .protocol import Refusal, encodable
from .requests import ResetRequest, StepRequest
from .reward import reward
from .tasks import Task, TaskError, UnavailableTaskError, user_task

FAULTS = 8
ANSWER_MARGIN_S = 60.0

_logger = logging.getLogger(__name__)


class Episode:
    """Begin one with `begin`; then `submit` until `done`."""

    def __init__(self, backend: Backend, task: Task, request: ResetRequest, device: Device) -> None:
        self.id = request.episode_id or uuid.uuid4().hex
        self.task = task
        self.language = request.language
        self.done = False
        self._backend = backend
        self._seed = request.seed
        self._device = device
        self._problem = problem_text(task, request.language, backend.settings, device)
        self._turn = 0
        self._steps = 0
        self._faults = 0
        self._best_speedup: float | None = None
        self._best_reward: float | None = None

    @classmethod
    async def begin(cls, backend: Backend, request: ResetRequest) -> Episode:
        """Choose the task, once a device is ready. Raises `Refusal`."""
        try:
            task = _task_of(backend, request)
        except UnavailableTaskError as error:
            raise Refusal("TASK_UNAVAILABLE", str(error)) from error
        except TaskError as error:
            raise Refusal("VALIDATION_ERROR", str(error)) from error
        device = await backend.device()
        try:
            check_runnable(request.language, device)
        except LanguageError as error:
            raise Refusal("VALIDATION_ERROR", str(error)) from error
        return cls(backend, task, request, device)

    @property
    def state(self) -> KernelState:
        return KernelState(
            episode_id=self.id,
            step_count=self._steps,
            task_id=self.task.id,
            language=self.language,
            split=self.task.split,
            turn=self._turn,
            max_turns=self._backend.settings.max_turns,
            done=self.done,
        )

    def opening(self) -> KernelObservation:
        """The observation of the reset; logs it."""
        metadata = {
            **self._identity(),
            "seed": self._seed,
            "level": self.task.level,
            "languages": list(runnable(self._device)),
            **where(self._device),
        }
        event = {**self._event("reset"), "seed": self._seed, **where(self._device)}
        if self._backend.settings.eval_log_code:
            event["problem"] = self._problem
        self._backend.log.write(event)
        return self._observation(feedback="", metadata=metadata)

    def check_open(self) -> None:
        """Raises `Refusal` (EPISODE_DONE) when no more submissions are taken."""
        if self.done:
            raise Refusal("EPISODE_DONE", "the episode is done: send a reset to begin another")

    async def submit(self, request: StepRequest, timeout_s: float | None = None) -> KernelObservation:
        """Evaluate one submission, within `timeout_s` or the server's own bound. Raises `Refusal`."""
        self.check_open()
        self._backend.check_open()
        started = time.monotonic()
        code = extract_code(request.code)
        evaluation_id = uuid.uuid4().hex
        evaluation = await self._evaluate(evaluation_id, code, timeout_s)
        value, evaluation = self._rewarded(evaluation)
        measured, told = numbers(evaluation.outcome), facts(evaluation)
        self._advance(evaluation, value, measured.get("speedup"))
        observation = self._observation(
            stage=evaluation.outcome.stage,
            feedback=encodable(feedback(evaluation.outcome)),
            correct=evaluation.outcome.kind == "passed",
            reward=value,
            infrastructure_fault=evaluation.outcome.kind == "infrastructure",
            metadata={**self._identity(), **told, "request_id": request.request_id},
            **measured,
        )
        wall_s = round(time.monotonic() - started, 6)
        ids = {"request_id": request.request_id, "evaluation_id": evaluation_id}
        event = {**ids, "reward": value, "wall_s": wall_s, **told, **measured}
        if self._backend.settings.eval_log_code:
            event["code"] = encodable(code)
        self._log_step(evaluation.outcome, event)
        return observation

    async def _evaluate(self, evaluation_id: str, code: str, timeout_s: float | None) -> Evaluation:
        budget_s = min(self._backend.settings.step_timeout_s, timeout_s or math.inf)
        request = EvaluationRequest(
            id=evaluation_id,
            task=TaskSource(id=self.task.id, source=self.task.source, hash=self.task.hash),
            language=self.language,
            code=code,
            budget_s=budget_s,
        )
        try:
            with self._backend.evaluating(self.id, evaluation_id):
                async with asyncio.timeout(budget_s + ANSWER_MARGIN_S):
                    return await self._backend.pool.evaluate(request)
        except TimeoutError:
            fault = Infrastructure(message="the evaluator gave no answer within the step's time", retryable=False)
            return Evaluation(outcome=fault, device=self._device, task_hash=self.task.hash)

    def _rewarded(self, evaluation: Evaluation) -> tuple[float, Evaluation]:
        """The reward; an evaluation whose numbers give none is a fault of ours."""
        try:
            return reward(evaluation.outcome, self._backend.settings.reward), evaluation
        except ValueError as error:
            _logger.error("episode %s: %s", self.id, error, extra={"episode_id": self.id})
            fault = Infrastructure(message=f"the measurement is not usable: {error}", retryable=False)
            return 0.0, evaluation.model_copy(update={"outcome": fault})

    def _advance(self, evaluation: Evaluation, value: float, speedup: float | None) -> None:
        self._steps += 1
        if isinstance(evaluation.outcome, Infrastructure):
            self._faults += 1
            self.done = self._faults >= FAULTS or evaluation.outcome.task
            if evaluation.outcome.task:
                self._backend.retire(self.task.id, evaluation.outcome.message)
            return
        self._faults = 0
        self._turn += 1
        self.done = self._turn >= self._backend.settings.max_turns
        self._best_reward = max(value, self._best_reward or 0.0)
        if speedup is not None:
            self._best_speedup = max(speedup, self._best_speedup or 0.0)

    def _observation(self, **fields: Any) -> KernelObservation:
        return KernelObservation(
            problem=self._problem,
            task_id=self.task.id,
            language=self.language,
            turn=self._turn,
            max_turns=self._backend.settings.max_turns,
            done=self.done,
            best_speedup=self._best_speedup,
            best_reward=self._best_reward,
            mock=self._device.kind == "mock",
            **fields,
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "episode_id": self.id,
            "task_hash": self.task.hash,
            "split": self.task.split,
            "reward_kind": self._backend.settings.reward,
            "checks": self._backend.settings.checks,
            "precision": self._backend.settings.precision,
        }

    def _event(self, kind: str) -> dict[str, Any]:
        return {
            "event": kind,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "task_id": self.task.id,
            "language": self.language,
            "max_turns": self._backend.settings.max_turns,
            **self._identity(),
        }

    def _log_step(self, outcome: Outcome, found: dict[str, Any]) -> None:
        event = {
            **self._event("step"),
            "step": self._steps,
            "turn": self._turn,
            "done": self.done,
            "stage": outcome.stage,
            **found,
            "outcome": outcome.model_dump(exclude_none=True),
        }
        self._backend.log.write(event)


def _task_of(backend: Backend, request: ResetRequest) -> Task:
    """Raises `TaskError` and `Refusal`."""
    if request.task_source is not None:
        if not backend.settings.user_tasks:
            raise Refusal(
                "USER_TASKS_OFF",
                "this server takes no tasks of its clients: name one of its own by task_id, or start it with"
                " KERNEL_ENV_USER_TASKS=true",
            )
        return user_task(request.task_source)
    if request.task_id is None:
        return backend.tasks.pick(request.seed, request.split)
    return backend.tasks.get(request.task_id)


def fresh_state(backend: Backend) -> KernelState:
    """The state before the first reset."""
    return KernelState(turn=0, max_turns=backend.settings.max_turns)
