"""What `reset` and `step` ask for: every field checked by hand, every refusal names the valid choices.

A request that parses is well-formed; whether its task exists and its language runs on the device is for
the episode to find out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from . import languages
from .protocol import Refusal, check_keys, echo
from .task_sources.text import MAX_TEXT_BYTES
from .tasks import SPLITS

TEXT_CAP = 255
SEED_MAX = 2**63 - 1
RESET_KEYS = ("seed", "episode_id", "task_id", "task_source", "split", "language")
STEP_KEYS = ("code", "metadata")


@dataclass(frozen=True)
class ResetRequest:
    """`task_source` is the task where given, else `task_id` picks it, else `seed` among `split`, else chance."""

    seed: int | None = None
    episode_id: str | None = None
    task_id: str | None = None
    task_source: str | None = None
    split: str = "train"
    language: str = "triton"

    @classmethod
    def parse(cls, data: dict[str, Any]) -> ResetRequest:
        """Raises `Refusal` (VALIDATION_ERROR)."""
        check_keys(data, RESET_KEYS, "reset")
        seed = data.get("seed")
        if seed is not None and (type(seed) is not int or not 0 <= seed <= SEED_MAX):
            raise _invalid("seed", seed, "a whole number from 0 to 2**63 - 1, or null for a random task")
        return cls(
            seed=seed,
            episode_id=_text(data, "episode_id"),
            task_id=_text(data, "task_id"),
            task_source=_source(data),
            split=_choice(data, "split", SPLITS, cls.split),
            language=_choice(data, "language", languages.known(), cls.language),
        )


@dataclass(frozen=True)
class StepRequest:
    """One submission, as sent. `request_id` makes it idempotent."""

    code: str
    request_id: str | None = None

    @classmethod
    def parse(cls, data: dict[str, Any], max_code_bytes: int) -> StepRequest:
        """Raises `Refusal` (VALIDATION_ERROR, TOO_LARGE)."""
        check_keys(data, STEP_KEYS, "an action")
        code = data.get("code")
        if not isinstance(code, str):
            raise _invalid("code", code, "the submission's source text")
        size = len(code.encode())
        if size > max_code_bytes:
            raise Refusal(
                "TOO_LARGE",
                f"code is {size} bytes; at most {max_code_bytes} (KERNEL_ENV_MAX_CODE_BYTES) are taken",
            )
        metadata = data.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise _invalid("metadata", metadata, "an object")
        return cls(code, _text(metadata or {}, "request_id"))

    @property
    def digest(self) -> str:
        """Identifies the text as it was sent."""
        return hashlib.sha256(self.code.encode()).hexdigest()


def _invalid(name: str, value: object, wanted: str) -> Refusal:
    return Refusal("VALIDATION_ERROR", f"{name}={echo(value)} is not allowed; give {wanted}")


def _text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CAP:
        raise _invalid(name, value, f"a text of 1 to {TEXT_CAP} characters")
    return value


def _source(data: dict[str, Any]) -> str | None:
    source = data.get("task_source")
    if source is None:
        return None
    if data.get("task_id") is not None:
        raise _invalid("task_source", source, "either this or task_id")
    if not isinstance(source, str) or not 0 < len(source.encode()) <= MAX_TEXT_BYTES:
        raise _invalid("task_source", source, f"a task's text of at most {MAX_TEXT_BYTES} bytes")
    return source


def _choice(data: dict[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise _invalid(name, value, f"one of: {', '.join(allowed)}")
    return value
