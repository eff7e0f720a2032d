"""Frames on the WebSocket: openenv's message types, read strictly, and replies that are always valid JSON.

`parse` accepts exactly openenv's five messages and raises `Refusal` for everything else; a refusal is one
error frame and never the end of a session. Messages to the client are capped, name no host path and echo
no more than a few words of what was sent. What a message asks for is checked in `requests`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import Observation, State
from pydantic_core import to_json

Code = Literal[
    "BUSY",
    "CAPACITY_REACHED",
    "EPISODE_DONE",
    "EPISODE_LOST",
    "EXECUTION_ERROR",
    "INVALID_JSON",
    "NOT_RESET",
    "SERVER_STARTING",
    "TASK_UNAVAILABLE",
    "TOO_LARGE",
    "UNAUTHORIZED",
    "UNKNOWN_TYPE",
    "USER_TASKS_OFF",
    "VALIDATION_ERROR",
]
MESSAGE_CAP = 2000
ECHO_CAP = 80

_KEYS: dict[str, tuple[str, ...]] = {
    "reset": ("type", "data"),
    "step": ("type", "data"),
    "state": ("type",),
    "close": ("type",),
    "mcp": ("type", "data"),
}
_HOST_PATH = re.compile(r"(?<![\w./:])/(?:[\w.+@-]+/)+")


class Refusal(Exception):
    """A request that is not done. `facts` are further fields of the error frame."""

    def __init__(self, code: Code, message: str, **facts: int | str) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = presentable(message)
        self.facts = facts

    def data(self) -> dict[str, Any]:
        return {"message": self.message, "code": self.code, **self.facts}


@dataclass(frozen=True)
class Message:
    """One request; `data` is empty for `state` and `close`."""

    type: str
    data: dict[str, Any]


def parse(raw: str) -> Message:
    """The message in a text frame. Raises `Refusal`: INVALID_JSON, UNKNOWN_TYPE or VALIDATION_ERROR."""
    frame = _load(raw)
    if not isinstance(frame, dict):
        raise Refusal("VALIDATION_ERROR", 'a message is a JSON object, such as {"type": "state"}')
    kind = frame.get("type")
    keys = _KEYS.get(kind) if isinstance(kind, str) else None
    if keys is None:
        raise Refusal("UNKNOWN_TYPE", f"unknown message type {echo(kind)}; use one of: {', '.join(_KEYS)}")
    check_keys(frame, keys, f"a {kind} message")
    data = frame.get("data", {} if kind == "reset" or "data" not in keys else None)
    if not isinstance(data, dict):
        raise Refusal("VALIDATION_ERROR", f"a {kind} message needs `data`, a JSON object")
    return Message(str(kind), data)


def check_keys(given: dict[str, Any], allowed: tuple[str, ...], what: str) -> None:
    """Raises `Refusal` for keys that nothing reads, so that a misspelt one is not silently dropped."""
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        names = ", ".join(echo(name) for name in unknown[:5])
        raise Refusal("VALIDATION_ERROR", f"{what} has no {names}; use: {', '.join(allowed)}")


def observation_frame(observation: Observation) -> str:
    return _frame("observation", serialize_observation(observation))


def state_frame(state: State) -> str:
    return _frame("state", state.model_dump())


def error_frame(refusal: Refusal) -> str:
    return _frame("error", refusal.data())


def mcp_frame(reply: dict[str, Any]) -> str:
    return _frame("mcp", reply)


def echo(value: object) -> str:
    """A short, printable form of what a client sent."""
    text = repr(value[:ECHO_CAP] if isinstance(value, str) else value)
    return text if len(text) <= ECHO_CAP else text[: ECHO_CAP - 3] + "..."


def presentable(text: str) -> str:
    """`text` as any client may see it: capped, without folders of this host, and encodable."""
    text = _HOST_PATH.sub("", text)
    if len(text) > MESSAGE_CAP:
        text = text[: MESSAGE_CAP - 3] + "..."
    return encodable(text)


def encodable(text: str) -> str:
    """`text` with lone surrogates replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _frame(kind: str, data: dict[str, Any]) -> str:
    return to_json({"type": kind, "data": data}, inf_nan_mode="null").decode()


def _load(raw: str) -> Any:
    try:
        value = json.loads(raw, parse_constant=_not_json, parse_float=_finite)
    except RecursionError as error:
        raise Refusal("INVALID_JSON", "the frame is nested too deeply") from error
    except ValueError as error:
        raise Refusal("INVALID_JSON", f"the frame is not valid JSON: {error}") from error
    if "\\ud" in raw.lower():
        _check_surrogates(value)
    return value


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Refusal(
            "VALIDATION_ERROR", "the frame holds a lone surrogate, which is not a character: send valid Unicode"
        ) from error


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value
