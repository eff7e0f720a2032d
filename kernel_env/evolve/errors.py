"""What ends a run, or keeps one from starting, as types. `status` is the exit status of the command.

A candidate that fails is none of these: it is a node of the tree.
"""

from __future__ import annotations


class EvolveError(RuntimeError):
    """Base of all errors of `kernel_env.evolve`."""

    status = 3


class ConfigError(EvolveError):
    """A setting is unknown, missing or impossible; nothing was sent or evaluated."""


class TaskFormError(ConfigError):
    """`initial_code` has not KernelBench's form; the text says what is missing."""


class RunFolderError(ConfigError):
    """The run folder cannot be used: it holds another run, is in use, or does not fit the settings."""


class ReplayError(ConfigError):
    """The recording has no answer or evaluation for what the run asks."""


class EndpointError(EvolveError):
    """The model's endpoint gave no usable answer. `fatal` where trying another candidate would not help."""

    status = 4

    def __init__(self, message: str, fatal: bool = False, requests: int = 1) -> None:
        super().__init__(message)
        self.fatal = fatal
        self.requests = requests


class EvaluatorError(EvolveError):
    """The evaluator gave no verdict: its fault, never the candidate's. `fatal` as in `EndpointError`."""

    status = 4

    def __init__(self, message: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal
