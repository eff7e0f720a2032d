"""`LLMConfig`: which model, behind which OpenAI-compatible endpoint, and how to ask it.

EvoFabric's names and order of arguments. Options go where they belong, to the client or into each request;
one that is neither is refused at once, with the nearest known name. The key is never shown or saved.
"""

from __future__ import annotations

import difflib
import os
from typing import Any

from .errors import ConfigError
from .redact import userinfo, without_userinfo

MODEL_CLASSES = ("OpenAIChatClient", "PanguClient")
CLIENT_OPTIONS = (
    "default_headers",
    "default_query",
    "http_client",
    "max_retries",
    "organization",
    "project",
    "timeout",
)
SAMPLING_OPTIONS = (
    "extra_body",
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "stream",
    "temperature",
    "top_p",
    "user",
    "verbosity",
)


class LLMConfig:
    """`model_class` is OpenAIChatClient or PanguClient, which speak the same protocol.

    `api_key` and `base_url` default to OPENAI_API_KEY and OPENAI_BASE_URL; give api_key="none" for an endpoint
    without keys. Further options are those of the client (`default_headers`, `timeout` in seconds, `max_retries`,
    ...) and of sampling (`temperature`, `max_tokens`, `stream`, `extra_body`, ...). Raises `ConfigError`.
    """

    def __init__(
        self,
        model_class: str = "OpenAIChatClient",
        model_name: str = "",
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        if model_class not in MODEL_CLASSES:
            raise ConfigError(f"model_class={model_class!r} is unknown; use one of: {', '.join(MODEL_CLASSES)}")
        if not model_name:
            raise ConfigError("no model: give model_name, as the endpoint calls it")
        self.model_class = model_class
        self.model_name = model_name
        self.api_key = api_key or os.environ.get("OPENAI_API_KEY", "")
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        if not self.api_key:
            raise ConfigError(
                "no key for the model's endpoint: give api_key or set OPENAI_API_KEY"
                " (api_key='none' for an endpoint without keys)"
            )
        _check_options(options)
        self.extra_params = options
        self.client_options = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
        self.sampling = {name: value for name, value in options.items() if name in SAMPLING_OPTIONS}

    @property
    def answer_cap(self) -> int | None:
        """The most tokens that an answer may have, where that is limited."""
        for name in ("max_completion_tokens", "max_tokens"):
            if self.sampling.get(name) is not None:
                return int(self.sampling[name])
        return None

    def secrets(self) -> list[str]:
        """What must appear in no file: the key, the values of headers, user and password of the URL."""
        headers = (self.client_options.get("default_headers") or {}).values()
        query = (self.client_options.get("default_query") or {}).values()
        key = [] if self.api_key == "none" else [self.api_key]
        return [*key, *map(str, headers), *map(str, query), *userinfo(self.base_url)]

    def shown(self) -> dict[str, Any]:
        """What may be saved and printed of it."""
        url = without_userinfo(self.base_url) if self.base_url else None
        return {
            "model_class": self.model_class,
            "model_name": self.model_name,
            "base_url": url,
            "sampling": self.sampling,
        }

    def __repr__(self) -> str:
        return f"LLMConfig({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"


def _check_options(options: dict[str, Any]) -> None:
    known = (*CLIENT_OPTIONS, *SAMPLING_OPTIONS)
    for name in options:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
        raise ConfigError(
            f"LLMConfig has no option {name!r}; {hint} (what is the endpoint's own goes into extra_body={{...}})"
        )
