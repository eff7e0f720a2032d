"""KernelEvolve: evolves a PyTorch `Model` into a verified kernel, judged by the environment's own evaluator.

    from kernel_env.evolve import GPUEvaluator, KernelEvolve, LLMConfig

    success, result = KernelEvolve(initial_code, LLMConfig(model_name="..."), GPUEvaluator()).evolve()

Imported on demand only; names resolve on first use, so that the light ones cost nothing of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chat import Reply as Reply
    from .config import EvolveConfig as EvolveConfig
    from .controller import KernelEvolve as KernelEvolve
    from .errors import ConfigError as ConfigError
    from .errors import EndpointError as EndpointError
    from .errors import EvaluatorError as EvaluatorError
    from .errors import EvolveError as EvolveError
    from .errors import ReplayError as ReplayError
    from .errors import RunFolderError as RunFolderError
    from .errors import TaskFormError as TaskFormError
    from .evaluator import BaseEvaluator as BaseEvaluator
    from .evaluator import GPUEvaluator as GPUEvaluator
    from .harness import EvolveHarness as EvolveHarness
    from .llm_config import LLMConfig as LLMConfig
    from .metrics import Metrics as Metrics
    from .result import EvolveResult as EvolveResult

_HOMES = {
    "BaseEvaluator": "evaluator",
    "ConfigError": "errors",
    "EndpointError": "errors",
    "EvaluatorError": "errors",
    "EvolveConfig": "config",
    "EvolveError": "errors",
    "EvolveHarness": "harness",
    "EvolveResult": "result",
    "GPUEvaluator": "evaluator",
    "KernelEvolve": "controller",
    "LLMConfig": "llm_config",
    "Metrics": "metrics",
    "ReplayError": "errors",
    "Reply": "chat",
    "RunFolderError": "errors",
    "TaskFormError": "errors",
}

__all__ = [*sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
