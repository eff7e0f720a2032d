"""The options by which commands name a model and a prompt, and the chat that follows from them.

The key comes from OPENAI_API_KEY alone: a command line is seen by every user of a machine.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import LANGUAGES, USAGE, check_language, fail

if TYPE_CHECKING:
    from kernel_env.evolve.chat import OpenAIChat
    from kernel_env.toolkit.prompt import Style

Model = Annotated[str, typer.Option(help="The model, as the endpoint calls it.")]
Endpoint = Annotated[
    str | None, typer.Option(help="An OpenAI-compatible endpoint's URL, with its /v1 [OPENAI_BASE_URL].")
]
Temperature = Annotated[float | None, typer.Option(min=0.0, max=2.0, help="The endpoint's own by default.")]
TopP = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="The endpoint's own by default.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Of an answer, reasoning included.")]
Effort = Annotated[
    str | None, typer.Option("--reasoning-effort", help="Such as low or high, for models with one.")
]
Language = Annotated[str, typer.Option(help=LANGUAGES)]
Shots = Annotated[str, typer.Option("--prompt", help="zero, one or few examples.")]
Hardware = Annotated[str, typer.Option(help="Name the device in the prompt, such as 'NVIDIA H200'.")]
Precision = Annotated[
    str, typer.Option(help="fp32, fp16 or bf16: of the prompt, and judged here [KERNEL_ENV_PRECISION].")
]


def chat(
    model: str,
    endpoint: str | None,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    effort: str | None,
) -> OpenAIChat:
    """Ends the command where the options don't do. An endpoint that is named needs no key."""
    if importlib.util.find_spec("openai") is None:
        fail("asking a model needs the extra toolkit: pip install 'openenv-kernel_env[toolkit]'", USAGE)
    from kernel_env.evolve.chat import OpenAIChat
    from kernel_env.evolve.errors import ConfigError
    from kernel_env.evolve.llm_config import LLMConfig
    from kernel_env.evolve.redact import Redactor

    given = {
        "temperature": temperature,
        "top_p": top_p,
        "max_completion_tokens": max_tokens,
        "reasoning_effort": effort,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    key, named = os.environ.get("OPENAI_API_KEY"), endpoint or os.environ.get("OPENAI_BASE_URL")
    if not key and not named:
        fail(
            "no endpoint: name one by --endpoint or OPENAI_BASE_URL, or set OPENAI_API_KEY for OpenAI's own", USAGE
        )
    try:
        config = LLMConfig(model_name=model, base_url=endpoint, api_key=key or "none", **options)
    except ConfigError as error:
        fail(error, USAGE)
    return OpenAIChat(config, Redactor(config.secrets()))


def style(language: str, shots: str, hardware: str, precision: str) -> Style:
    """Ends the command where a choice is none."""
    from kernel_env.toolkit.prompt import PRECISIONS, SHOTS, Style

    check_language(language)
    for option, value, allowed in (
        ("--prompt", shots, tuple(SHOTS)),
        ("--precision", precision, ("", *PRECISIONS)),
    ):
        if value not in allowed:
            fail(f"{option} {value!r} is not allowed; use one of: {', '.join(filter(None, allowed))}", USAGE)
    return Style(language, shots, hardware, precision)  # type: ignore[arg-type]  # one of PRECISIONS
