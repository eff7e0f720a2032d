"""kernel_env: an OpenEnv environment that trains agents to write fast, correct GPU kernels.

Names resolve on first use (PEP 562), so that `import kernel_env` costs milliseconds and never
imports torch or openenv.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .client import KernelEnv as KernelEnv
    from .errors import AuthenticationError as AuthenticationError
    from .errors import CapacityError as CapacityError
    from .errors import EpisodeLostError as EpisodeLostError
    from .errors import KernelEnvError as KernelEnvError
    from .errors import RequestError as RequestError
    from .errors import ServerStartingError as ServerStartingError
    from .errors import StepTimeoutError as StepTimeoutError
    from .errors import TaskUnavailableError as TaskUnavailableError
    from .errors import UserTasksError as UserTasksError
    from .models import KernelAction as KernelAction
    from .models import KernelObservation as KernelObservation
    from .models import KernelState as KernelState

_HOMES = {
    "KernelEnv": "client",
    "KernelAction": "models",
    "KernelObservation": "models",
    "KernelState": "models",
    "KernelEnvError": "errors",
    "AuthenticationError": "errors",
    "CapacityError": "errors",
    "EpisodeLostError": "errors",
    "RequestError": "errors",
    "ServerStartingError": "errors",
    "StepTimeoutError": "errors",
    "TaskUnavailableError": "errors",
    "UserTasksError": "errors",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
