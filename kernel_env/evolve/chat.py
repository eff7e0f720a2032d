"""Asks a model behind an OpenAI-compatible endpoint: one client for a run, one retry layer, plain or streamed.

The client's own retries are off: this module also repeats what they do not see, a body that is no JSON and a
stream that breaks off. Parameters that are not set are not sent; one that a 400 names is left out from then on,
with a note. Function calling is never asked for. `Chat` is what a run needs of a model, for those who bring
their own.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from .errors import EndpointError
from .llm_config import LLMConfig
from .redact import Redactor
from .retry import asked, delay, hopeless, retryable

Message = dict[str, str]

TIMEOUT_S = 600.0
MAX_RETRIES = 3
MOST_TEXT = 4_000_000
SAID = 400
_CAPS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(frozen=True)
class Reply:
    """One answer. `estimated` where the endpoint gave no usage and tokens are worked out from lengths."""

    text: str
    model: str
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    requests: int = 1
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Reply:
        return cls(**{**found, "notes": tuple(found["notes"])})


class Chat(Protocol):
    """A model. `node` identifies the candidate that the answer is for; `may_retry` says whether the budget has
    one more request. Raises `EndpointError`."""

    async def complete(self, node: int, messages: list[Message], may_retry: Callable[[], bool]) -> Reply: ...


class _Malformed(Exception):
    """A reply that is none: not JSON, no choices, a stream that ends early."""


class OpenAIChat:
    """See `Chat`. Must be used within one event loop."""

    def __init__(self, config: LLMConfig, redact: Redactor, answer_cap: int | None = None) -> None:
        """`answer_cap` limits an answer's tokens where the options do not."""
        import openai

        self._openai = openai
        self._config = config
        self._redact = redact
        options = {"timeout": TIMEOUT_S, **config.client_options}
        self._retries = int(options.pop("max_retries", MAX_RETRIES))
        self._client = openai.AsyncOpenAI(
            api_key=config.api_key, base_url=config.base_url, max_retries=0, **options
        )
        self._parameters = {name: value for name, value in config.sampling.items() if value is not None}
        self._stream = bool(self._parameters.pop("stream", False))
        if self._stream:
            self._parameters["stream_options"] = {"include_usage": True}
        if answer_cap is not None and config.answer_cap is None:
            self._parameters["max_completion_tokens"] = answer_cap
        self._notes: list[str] = []
        self._broken: tuple[type[Exception], ...] = (
            openai.APIConnectionError,
            _Malformed,
            *_transport_errors(),
        )

    async def complete(self, node: int, messages: list[Message], may_retry: Callable[[], bool]) -> Reply:
        begun = time.monotonic()
        requests = attempt = 0
        while True:
            requests += 1
            try:
                parts = await self._once(messages)
                return _reply(parts, self._config.model_name, messages, requests, begun, tuple(self._notes))
            except self._openai.APIStatusError as error:
                if error.status_code == 400 and self._leave_out(error):
                    if may_retry():
                        continue
                    raise EndpointError(self._said(error), requests=requests) from None
                if not retryable(error.status_code):
                    raise EndpointError(self._said(error), hopeless(error.status_code), requests) from None
                wait = delay(attempt, asked(dict(error.response.headers)), random.random())
                reason = self._said(error)
            except self._broken as error:
                wait = delay(attempt, None, random.random())
                reason = self._said(error)
            attempt += 1
            if wait is None or attempt > self._retries or not may_retry():
                raise EndpointError(
                    f"no answer in {requests} request{'s' if requests > 1 else ''}; the last: {reason}",
                    requests=requests,
                )
            await asyncio.sleep(wait)

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> OpenAIChat:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _once(self, messages: list[Message]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._config.model_name, "messages": messages, **self._parameters}
        if self._stream:
            return await self._streamed(request)
        raw = await self._client.chat.completions.with_raw_response.create(**request)
        try:
            return _parts(json.loads(raw.text))
        except (ValueError, RecursionError) as error:
            raise _Malformed(f"the body is not JSON: {error}") from None

    async def _streamed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Collect a stream; one that ends without a finish reason broke off."""
        texts: list[str] = []
        found: dict[str, Any] = {"finish_reason": None, "usage": None, "model": None}
        size = 0
        try:
            async with await self._client.chat.completions.create(**request, stream=True) as stream:
                async for chunk in stream:
                    found["model"] = chunk.model or found["model"]
                    found["usage"] = chunk.usage.model_dump() if chunk.usage else found["usage"]
                    for choice in chunk.choices[:1]:
                        texts.append(choice.delta.content or "")
                        size += len(texts[-1])
                        found["finish_reason"] = choice.finish_reason or found["finish_reason"]
                    if size > MOST_TEXT:
                        raise _Malformed(f"the answer is longer than {MOST_TEXT} characters")
        except (json.JSONDecodeError, AttributeError, TypeError) as error:
            raise _Malformed(f"the stream is not what it should be: {error}") from None
        if found["finish_reason"] is None:
            raise _Malformed("the stream ended before the answer did")
        return {"text": "".join(texts), **found}

    def _leave_out(self, error: Any) -> bool:
        """Drop the parameters that the endpoint refuses by name; whether there were any."""
        said = json.dumps(error.body, default=str) if error.body is not None else str(error)
        named = [name for name in self._parameters if name == error.param or f"{name}" in _words(said)]
        for name in named:
            value = self._parameters.pop(name)
            other = _CAPS.get(name)
            if other is not None and not any(other in note for note in self._notes):
                self._parameters[other] = value
                self._notes.append(f"the endpoint refuses {name}; {other} is sent instead")
            else:
                self._notes.append(f"the endpoint refuses {name}; it is left out")
        return bool(named)

    def _said(self, error: BaseException) -> str:
        status = getattr(error, "status_code", None)
        text = str(error).strip() or type(error).__name__
        cause = error.__cause__
        if cause is not None and status is None:
            text = f"{text} ({type(cause).__name__}: {cause})"
        return self._redact(text)[:SAID]


def _words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() or char == "_" else " " for char in text).split())


def _parts(body: Any) -> dict[str, Any]:
    """Text, finish reason, usage and model of a reply's body."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        return {
            "text": str(message.get("content") or "")[:MOST_TEXT],
            "finish_reason": choice.get("finish_reason"),
            "usage": body.get("usage"),
            "model": body.get("model"),
        }
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Malformed(f"the body holds no answer: {type(error).__name__}: {error}") from None


def _reply(
    parts: dict[str, Any], model: str, messages: list[Message], requests: int, begun: float, notes: tuple[str, ...]
) -> Reply:
    usage = parts["usage"] if isinstance(parts["usage"], dict) else {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    estimated = not isinstance(prompt, int) or not isinstance(completion, int)
    if estimated:
        prompt, completion = prompt_estimate(messages), len(parts["text"].encode()) // 3 + 1
    return Reply(
        text=parts["text"],
        model=str(parts["model"] or model),
        finish_reason=parts["finish_reason"],
        prompt_tokens=int(prompt or 0),
        completion_tokens=int(completion or 0),
        estimated=estimated,
        requests=requests,
        seconds=round(time.monotonic() - begun, 3),
        notes=notes,
    )


def prompt_estimate(messages: list[Message]) -> int:
    """Tokens of a prompt, on the high side: three bytes each."""
    return sum(len(message["content"].encode()) // 3 + 8 for message in messages)


def _transport_errors() -> tuple[type[Exception], ...]:
    """What breaks off a stream: raised by the client's transport, another package for each version."""
    found: list[type[Exception]] = []
    for name in ("httpx2", "httpx"):
        try:
            found.append(importlib.import_module(name).HTTPError)
        except ModuleNotFoundError:
            continue
    return tuple(found)
