"""The interface of what `GPUEvaluator` hands evaluations to: workers of this machine, or a server."""

from __future__ import annotations

from typing import Protocol

from .config import Language
from .metrics import Metrics


class Judge(Protocol):
    """Faults of its own are `Metrics` with `infrastructure`; what no evaluation can change is `EvaluatorError`."""

    async def open(self) -> None: ...

    async def evaluate(self, initial_code: str, code: str, language: Language) -> Metrics: ...

    async def problem(self, initial_code: str, language: Language) -> str: ...

    async def close(self) -> None: ...
