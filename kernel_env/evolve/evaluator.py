"""What judges programs: `BaseEvaluator` to subclass, `GPUEvaluator` for the environment's own.

A run calls `open` once, then `evaluate` as often as it wants, then `close`; all from one event loop. A plain
`evaluate` runs in a thread of its own. `GPUEvaluator` never imports torch or a program into this process: workers
on this machine, or a server, do.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import Language, known_language
from .errors import ConfigError
from .metrics import Metrics
from .threads import in_thread

if TYPE_CHECKING:
    from .judges import Judge


class BaseEvaluator(ABC):
    """Subclass it with `evaluate`, plain or async. Both arguments are source text, never paths.

    `language` is what programs are asked for in. An exception from `evaluate` is a fault of the evaluator, and
    never held against the program: return `Metrics` with an `error` for one that is wrong.
    """

    language: Language = "triton"

    @abstractmethod
    def evaluate(self, initial_code: str, evolve_code: str) -> Metrics | Awaitable[Metrics]:
        """Judge `evolve_code`, which defines `ModelNew`, against the `Model` of `initial_code`."""

    async def open(self) -> None:
        """Called before the first evaluation; raises `EvaluatorError` where none is possible."""
        return

    async def close(self) -> None:
        """Called once after the last."""
        return

    async def problem(self, initial_code: str) -> str | None:
        """What to tell the model about the task; None for a text of the run's own."""
        return None

    def describe(self) -> dict[str, Any]:
        """What may be saved of it: no secrets."""
        return {"evaluator": type(self).__name__, "language": self.language}

    def secrets(self) -> list[str]:
        """What must appear in no file."""
        return []

    @staticmethod
    def _read_file(path: str) -> str:
        """Text of a file, for evaluators that keep theirs in files."""
        return Path(path).read_text()


class GPUEvaluator(BaseEvaluator):
    """The environment's evaluator: with `base_url` that of a running server, else workers of this machine.

    `kind` is what this machine evaluates on: "gpu", "cpu", "mock" (nothing runs, times are made up) or "auto".
    A server takes a task of one's own only where it is told to (KERNEL_ENV_USER_TASKS); `task_id` names one of
    the server's tasks whose text is that of `initial_code`. `settings` are further `KERNEL_ENV_*` values for the
    workers here.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        language: Language = "triton",
        kind: str = "auto",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        task_id: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        try:
            known_language(language)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if kind not in ("auto", "gpu", "cpu", "mock"):
            raise ConfigError(f"kind={kind!r} is unknown; use one of: auto, gpu, cpu, mock")
        self.language = language
        self.base_url = base_url
        self.kind = kind
        self._token = token
        self._headers = dict(headers or {})
        self._task_id = task_id
        self._settings = dict(settings or {})
        self._judge: Judge | None = None

    async def open(self) -> None:
        if self._judge is None:
            judge = self._make()
            try:
                await judge.open()
            except BaseException:
                await judge.close()
                raise
            self._judge = judge

    async def close(self) -> None:
        judge, self._judge = self._judge, None
        if judge is not None:
            await judge.close()

    async def __aenter__(self) -> GPUEvaluator:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def evaluate(self, initial_code: str, evolve_code: str) -> Metrics:
        await self.open()
        assert self._judge is not None
        return await self._judge.evaluate(initial_code, evolve_code, self.language)

    async def problem(self, initial_code: str) -> str:
        await self.open()
        assert self._judge is not None
        return await self._judge.problem(initial_code, self.language)

    def describe(self) -> dict[str, Any]:
        where = {"url": self.base_url} if self.base_url else {"kind": self.kind}
        return {"evaluator": "GPUEvaluator", "language": self.language, **where}

    def secrets(self) -> list[str]:
        token = self._token or os.environ.get("KERNEL_ENV_TOKEN", "")
        return [text for text in (token, *self._headers.values()) if text]

    def _make(self) -> Judge:
        if self.base_url is not None:
            from .remote import ServerJudge

            return ServerJudge(self.base_url, self._token, self._headers, self._task_id)
        from .local import LocalJudge

        return LocalJudge(self.kind, self._settings)


async def measure(evaluator: BaseEvaluator, initial_code: str, code: str) -> Metrics:
    """One evaluation, wherever `evaluate` is written to run. Raises what it raises."""
    found: Metrics | Awaitable[Metrics]
    if inspect.iscoroutinefunction(evaluator.evaluate):
        found = evaluator.evaluate(initial_code, code)
    else:
        found = await in_thread(evaluator.evaluate, initial_code, code)
    result = await found if isinstance(found, Awaitable) else found
    if not isinstance(result, Metrics):
        raise TypeError(f"evaluate returned {type(result).__name__}, not Metrics")
    return result
