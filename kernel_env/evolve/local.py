"""Evaluations on this machine: a pool of workers of our own, the same as a server's. Torch stays in them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from kernel_env.server.config import Settings, SettingsError
from kernel_env.server.feedback import feedback
from kernel_env.server.languages import LanguageError, check_runnable
from kernel_env.server.local import LocalPool
from kernel_env.server.mock import MockPool
from kernel_env.server.observation import facts, numbers
from kernel_env.server.outcome import Device, Evaluation, EvaluationRequest, Passed, TaskSource
from kernel_env.server.pool import Pool
from kernel_env.server.problem import problem_text
from kernel_env.server.reward import reward
from kernel_env.server.tasks import TaskError, user_task

from .config import Language
from .errors import ConfigError, EvaluatorError
from .metrics import Metrics, from_observation
from .task import task_hash

READY_S = 300.0


class LocalJudge:
    """See `judges.Judge`. Settings come from the environment, as the server's do, with `settings` on top."""

    def __init__(self, kind: str, settings: Mapping[str, str]) -> None:
        given = {**os.environ, "KERNEL_ENV_EVALUATOR": kind, "KERNEL_ENV_MAX_TURNS": "1", **settings}
        try:
            self._settings = Settings.from_env(given)
        except SettingsError as error:
            raise ConfigError(str(error)) from None
        self._pool: Pool | None = None
        self._device: Device | None = None

    async def open(self) -> None:
        try:
            pool = MockPool(self._settings) if self._settings.evaluator == "mock" else LocalPool(self._settings)
        except SettingsError as error:
            raise EvaluatorError(str(error), fatal=True) from None
        self._pool = pool
        await pool.start()
        self._device = await pool.ready(READY_S)
        if self._device is None:
            reason = pool.health()["message"] or "none became ready"
            raise EvaluatorError(f"no device can evaluate: {reason}", fatal=True)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def evaluate(self, initial_code: str, code: str, language: Language) -> Metrics:
        pool, _ = self._ready(language)
        digest = task_hash(initial_code)
        request = EvaluationRequest(
            id=uuid.uuid4().hex,
            task=TaskSource(id=f"user/{digest}", source=initial_code, hash=digest),
            language=language,
            code=code,
            budget_s=self._settings.step_timeout_s,
        )
        evaluation = await pool.evaluate(request)
        outcome = evaluation.outcome
        if outcome.kind == "infrastructure" and outcome.task:
            raise EvaluatorError(f"the task can't be evaluated here: {outcome.message}", fatal=True)
        return from_observation(self._seen(evaluation))

    async def problem(self, initial_code: str, language: Language) -> str:
        _, device = self._ready(language)
        try:
            return problem_text(user_task(initial_code), language, self._settings, device)
        except TaskError as error:
            raise ConfigError(str(error)) from None

    def _ready(self, language: Language) -> tuple[Pool, Device]:
        assert self._pool is not None, "open() comes first"
        assert self._device is not None, "open() comes first"
        try:
            check_runnable(language, self._device)
        except LanguageError as error:
            raise ConfigError(str(error)) from None
        return self._pool, self._device

    def _seen(self, evaluation: Evaluation) -> dict[str, Any]:
        """The fields of an observation."""
        outcome = evaluation.outcome
        return {
            "stage": outcome.stage,
            "feedback": feedback(outcome),
            "correct": isinstance(outcome, Passed),
            "reward": reward(outcome, self._settings.reward),
            "mock": evaluation.device.kind == "mock",
            "metadata": facts(evaluation),
            **numbers(outcome),
        }
