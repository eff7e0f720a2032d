"""`kernel-env generate`: ask a model for kernels, into a run directory; `generate-and-eval`: one, judged at once.

`generate` ends with status 0 when every kernel is there, 1 when some answers are missing (the same command goes
on). `generate-and-eval` ends with 0 only if the kernel passed.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import USAGE, err, fail, load_tasks, out, progress, settings_from, steps
from .eval_run import evaluator_for
from .evaluate import show
from .model_options import (
    Effort,
    Endpoint,
    Hardware,
    Language,
    MaxTokens,
    Model,
    Precision,
    Shots,
    Temperature,
    TopP,
    chat,
    style,
)

if TYPE_CHECKING:
    from kernel_env.evolve.chat import OpenAIChat
    from kernel_env.toolkit.evaluators import Evaluator, Verdict
    from kernel_env.toolkit.generation import Answer, Request

DATASETS = {"local": "kernelbench", "hub": "huggingface"}


def generate(
    folder: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Is made where it is not there.")],
    model: Model,
    level: Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")] = None,
    problems: Annotated[str | None, typer.Option(help="Only these problems, such as 1-10,23.")] = None,
    samples: Annotated[int, typer.Option(min=1, max=10_000, help="Kernels for each problem.")] = 1,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources [KERNEL_ENV_TASKS].")] = None,
    at_once: Annotated[int, typer.Option(min=1, max=1024, help="Requests at one time.")] = 16,
    language: Language = "triton",
    shots: Shots = "one",
    hardware: Hardware = "",
    precision: Precision = "",
    endpoint: Endpoint = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    effort: Effort = None,
    as_json: Annotated[bool, typer.Option("--json", help="A summary as one JSON object.")] = False,
) -> None:
    """Ask a model for kernels; those that the run directory has already are kept."""
    from kernel_env.toolkit.folder import FolderError, Sample, kernels, locked
    from kernel_env.toolkit.generation import GenerationError, Request
    from kernel_env.toolkit.problems import SelectionError, by_place, numbers, select
    from kernel_env.toolkit.prompt import prompt

    asked = style(language, shots, hardware, precision)
    settings = settings_from({"KERNEL_ENV_TASKS": sources, "KERNEL_ENV_PRECISION": precision or None})
    tasks = load_tasks(settings)
    model_chat = chat(model, endpoint, temperature, top_p, max_tokens, effort)
    try:
        chosen = select(by_place(tasks.ids()), level, None if problems is None else numbers(problems))
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            there = kernels(folder)
            wanted = [
                Request(sample, prompt(tasks.get(task_id), asked, settings))
                for number in range(samples)
                for (in_level, problem), task_id in chosen.items()
                if (sample := Sample(in_level, problem, number)) not in there
            ]
            answers = asyncio.run(_ask(model_chat, folder, wanted, at_once))
    except (FolderError, SelectionError, GenerationError, OSError) as error:
        fail(error, USAGE)
    _tell(answers, len(chosen) * samples - len(wanted), as_json)
    raise typer.Exit(1 if any(answer.fault for answer in answers) else 0)


async def _ask(model: OpenAIChat, folder: Path, requests: Sequence[Request], at_once: int) -> list[Answer]:
    from kernel_env.toolkit.generation import generate

    answers = []
    try:
        with steps("Generating", len(requests)) as step:
            async for answer in generate(model, folder, requests, at_once):
                answers.append(answer)
                step(f"{answer.sample.stem} {answer.fault or f'{answer.tokens} tokens'}")
    finally:
        await model.close()
    return answers


def _tell(answers: Sequence[Answer], kept: int, as_json: bool) -> None:
    missing = [answer for answer in answers if answer.fault]
    cut = sum(answer.cut for answer in answers)
    tokens = sum(answer.tokens for answer in answers)
    if as_json:
        told = {"generated": len(answers) - len(missing), "kept": kept, "cut": cut, "tokens": tokens}
        faults = [{"sample": answer.sample.stem, "reason": answer.fault} for answer in missing]
        out.print(json.dumps({**told, "missing": faults}), markup=False)
        return
    out.print(f"{len(answers) - len(missing)} generated, {kept} were there; {tokens} tokens", markup=False)
    if cut:
        err.print(f"{cut} answers were cut at their longest: --max-tokens", style="yellow")
    for answer in missing:
        err.print(f"{answer.sample.stem} is missing: {answer.fault}", style="yellow", markup=False)


def generate_and_eval(
    model: Model,
    level: Annotated[int, typer.Option(help="The problem's level.")],
    problem: Annotated[int, typer.Option(help="Its number.")],
    dataset: Annotated[
        str | None, typer.Option(help="local: KERNELBENCH_DIR; hub: Hugging Face. [KERNEL_ENV_TASKS]")
    ] = None,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources, in place of --dataset.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Keep prompt, answer and kernel here.")
    ] = None,
    language: Language = "triton",
    shots: Shots = "one",
    hardware: Hardware = "",
    precision: Precision = "",
    endpoint: Endpoint = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    effort: Effort = None,
    url: Annotated[str | None, typer.Option(help="A running server; without it, evaluate here.")] = None,
    evaluator: Annotated[
        str | None, typer.Option(help="auto, gpu, cpu or mock, without --url [KERNEL_ENV_EVALUATOR].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as one JSON object.")] = False,
) -> None:
    """Ask a model for one kernel and judge it. Status 0 only if it passed."""
    from kernel_env.toolkit.evaluators import EvaluatorError, Fault
    from kernel_env.toolkit.generation import GenerationError
    from kernel_env.toolkit.problems import SelectionError, by_place, select
    from kernel_env.toolkit.prompt import prompt

    if dataset not in (None, *DATASETS):
        fail(f"--dataset {dataset!r} is not allowed; use one of: {', '.join(DATASETS)}", USAGE)
    asked = style(language, shots, hardware, precision)
    options = {
        "KERNEL_ENV_TASKS": sources or DATASETS.get(dataset or ""),
        "KERNEL_ENV_EVALUATOR": evaluator,
        "KERNEL_ENV_PRECISION": precision or None,
    }
    settings = settings_from(options)
    tasks = load_tasks(settings)
    model_chat = chat(model, endpoint, temperature, top_p, max_tokens, effort)
    try:
        (task_id,) = select(by_place(tasks.ids()), [level], [problem]).values()
        text = prompt(tasks.get(task_id), asked, settings)
        judge = evaluator_for(url, 1, options)
        verdict = asyncio.run(_both(model_chat, judge, task_id, (level, problem), text, language, folder))
    except (SelectionError, GenerationError, EvaluatorError, Fault, OSError) as error:
        fail(error, USAGE)
    if as_json:
        out.print(json.dumps(verdict), markup=False)
    else:
        show(verdict)
    raise typer.Exit(0 if verdict["stage"] == "passed" else 1)


async def _both(
    model: OpenAIChat,
    judge: Evaluator,
    task_id: str,
    place: tuple[int, int],
    text: str,
    language: str,
    folder: Path | None,
) -> Verdict:
    """The model is asked while the evaluator starts."""
    from kernel_env.toolkit.folder import Sample, read_text
    from kernel_env.toolkit.generation import GenerationError, Request, generate

    sample = Sample(*place, 0)
    async with AsyncExitStack() as stack:
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernel-env-")))
        stack.push_async_callback(model.close)
        entering = asyncio.create_task(stack.enter_async_context(judge))
        try:
            with progress(f"Asking for {task_id}"):
                answers = [answer async for answer in generate(model, kept, [Request(sample, text)], 1)]
        finally:
            with progress("Starting the evaluator"):
                await entering
        if answers[0].fault:
            raise GenerationError(answers[0].fault)
        with progress("Evaluating"):
            return await judge.evaluate(task_id, language, read_text(kept / sample.file_name))
