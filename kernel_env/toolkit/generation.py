"""Answers of a model to prompts, as files of a run directory, a bounded number at a time.

The model is asked through `kernel_env.evolve`'s chat, which has the one retry layer. An answer is written as it
is, beside the code that was found in it; a kernel's file is written whole or not at all, so a run that was ended
goes on with what is missing. An answer without `ModelNew` is a kernel, too: a bad one, as the evaluator will say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_env.abreast import abreast
from kernel_env.extract import extract_code

from .folder import Sample, write_whole

if TYPE_CHECKING:
    from kernel_env.evolve.chat import Chat


class GenerationError(RuntimeError):
    """No answer can be had; the text says why."""


@dataclass(frozen=True)
class Request:
    sample: Sample
    prompt: str


@dataclass(frozen=True)
class Answer:
    """`fault` says why there is none."""

    sample: Sample
    tokens: int = 0
    cut: bool = False
    fault: str = ""


def generate(chat: Chat, folder: Path, requests: Sequence[Request], at_once: int) -> AsyncIterator[Answer]:
    """Ask for each and write its files; in the order in which they are done. Raises `GenerationError`, OSError."""
    calls = (partial(_answer, chat, folder, number, request) for number, request in enumerate(requests))
    return abreast(calls, at_once)


async def _answer(chat: Chat, folder: Path, number: int, request: Request) -> Answer:
    from kernel_env.evolve.errors import EndpointError

    sample = request.sample
    try:
        messages = [{"role": "user", "content": request.prompt}]
        reply = await chat.complete(number, messages, lambda: True)
    except EndpointError as error:
        if error.fatal:
            raise GenerationError(str(error)) from error
        return Answer(sample, fault=str(error))
    if not reply.text.strip():
        return Answer(sample, reply.tokens, fault=f"the answer is empty (it ended for {reply.finish_reason})")
    write_whole(folder / f"{sample.stem}_prompt.txt", request.prompt)
    write_whole(folder / f"{sample.stem}_answer.json", json.dumps(reply.to_dict(), indent=1))
    write_whole(folder / sample.file_name, extract_code(reply.text))
    return Answer(sample, reply.tokens, reply.finish_reason == "length")
