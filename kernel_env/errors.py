"""What can go wrong between a trainer and the server, as types that say what to do.

Every error is a `KernelEnvError`, carries the server's `code`, and keeps the text `(code: X)` that stock
openenv clients show, so that code which greps for it works unchanged. Classes follow from the code alone,
never from the wording of a message. Outcomes of a submission are not errors; they are observations.
"""

from __future__ import annotations

from typing import Any

MESSAGE_LIMIT = 2000


class KernelEnvError(RuntimeError):
    """Base of all errors of the client. `code` is the server's, or the client's own in the same style."""

    advice = ""

    def __init__(self, message: str, code: str) -> None:
        """`message` is capped: servers may echo what they were sent."""
        if len(message) > MESSAGE_LIMIT:
            message = f"{message[:MESSAGE_LIMIT]}... ({len(message) - MESSAGE_LIMIT} more characters)"
        self.code = code
        super().__init__(f"{message} (code: {code}){self.advice and '. ' + self.advice}")


class CapacityError(KernelEnvError):
    """Every session of the server stayed in use for the whole of `capacity_wait_s`."""

    advice = (
        "Run fewer clients at once, wait longer (capacity_wait_s), close clients that are done,"
        " or start the server with a larger KERNEL_ENV_MAX_SESSIONS"
    )


class EpisodeLostError(KernelEnvError):
    """The episode is gone: its connection dropped and could not be resumed. Nothing can be stepped."""

    advice = "Call reset() to begin a new episode, and mask the lost one: the submission is not at fault"


class StepTimeoutError(KernelEnvError):
    """No reply within `message_timeout_s`. The episode was given up, so that no late reply is mistaken."""

    advice = (
        "Call reset() to begin a new episode; if steps may really take this long, raise message_timeout_s"
        " above the server's KERNEL_ENV_STEP_TIMEOUT_S"
    )


class ServerStartingError(KernelEnvError):
    """The server answers, but was not ready to evaluate within `start_wait_s`."""

    advice = "Wait and try again; GET /health says what the server is waiting for"


class RequestError(KernelEnvError):
    """The server refused the arguments of `reset` or `step`, or the call does not fit the episode's state.

    A refused step changes nothing: the episode goes on with a corrected one. A refused reset begins nothing.
    """


class TaskUnavailableError(RequestError):
    """The task exists, but the server's machine lacks what it needs; the message says how to get it."""

    advice = "Ask for another task meanwhile; a reset without task_id never picks one that is unavailable"


class UserTasksError(RequestError):
    """The server takes no tasks of its clients."""

    advice = "A task that the server has can be named by task_id"


class AuthenticationError(KernelEnvError):
    """The server, or a proxy in front of it, refused the connection's credentials."""

    advice = (
        "Give the server's token (token=... or KERNEL_ENV_TOKEN); behind a Modal proxy also set"
        " MODAL_PROXY_KEY and MODAL_PROXY_SECRET"
    )


_CLASSES: dict[str, type[KernelEnvError]] = {
    "CAPACITY_REACHED": CapacityError,
    "EPISODE_LOST": EpisodeLostError,
    "SESSION_ERROR": EpisodeLostError,
    "STEP_TIMEOUT": StepTimeoutError,
    "SERVER_STARTING": ServerStartingError,
    "TASK_UNAVAILABLE": TaskUnavailableError,
    "USER_TASKS_OFF": UserTasksError,
    "UNAUTHORIZED": AuthenticationError,
    "VALIDATION_ERROR": RequestError,
    "INVALID_JSON": RequestError,
    "UNKNOWN_TYPE": RequestError,
    "TOO_LARGE": RequestError,
    "NOT_RESET": RequestError,
    "EPISODE_DONE": RequestError,
    "BUSY": RequestError,
}


def error_of(code: str, message: str) -> KernelEnvError:
    """The error of a code; a code that is not known gives a plain `KernelEnvError`."""
    return _CLASSES.get(code, KernelEnvError)(message, code)


def error_from_frame(data: dict[str, Any]) -> KernelEnvError:
    """The error that the `data` of a server's error frame describes."""
    return error_of(
        str(data.get("code", "UNKNOWN")), f"Server error: {data.get('message', 'no message was given')}"
    )
