"""`kernel-env eval`: one submission from a file, judged by a running server or by workers started here.

Status 0 only if the submission passed, 1 if it did not, 2 if the command itself could not be carried out.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .console import (
    AUTO,
    LANGUAGES,
    USAGE,
    check_language,
    fail,
    leave_gradio_out,
    load_tasks,
    out,
    pool_of,
    progress,
    settings_from,
)

if TYPE_CHECKING:
    from kernel_env.server.config import Settings
    from kernel_env.server.outcome import EvaluationRequest

READY_S = 300.0

Verdict = dict[str, Any]


def evaluate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The submission; - reads standard input.")],
    task: Annotated[str, typer.Option(metavar="ID", help="Such as level1/e01_RowSoftmax.")],
    language: Annotated[str, typer.Option(help=f"{LANGUAGES[:-1]}; auto: by what FILE uses.")] = AUTO,
    url: Annotated[str | None, typer.Option(help="A running server; without it, evaluate here.")] = None,
    evaluator: Annotated[
        str | None, typer.Option(help="auto, gpu, cpu or mock, without --url [KERNEL_ENV_EVALUATOR].")
    ] = None,
    sources: Annotated[
        str | None, typer.Option("--tasks", help="Task sources, without --url [KERNEL_ENV_TASKS].")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="eager or compile, without --url [KERNEL_ENV_BASELINE].")
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="standard or strict, without --url [KERNEL_ENV_CHECKS].")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, fp16 or bf16, without --url [KERNEL_ENV_PRECISION].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as one JSON object.")] = False,
) -> None:
    """Evaluate one submission. Status 0 only if it passed."""
    if url is None:
        check_language(language, AUTO)
    code = read_code(file)
    language = language_of(code, language)
    if url is not None:
        verdict = ask_server(url, code, task, language)
    else:
        options = {
            "KERNEL_ENV_EVALUATOR": evaluator,
            "KERNEL_ENV_TASKS": sources,
            "KERNEL_ENV_BASELINE": baseline,
            "KERNEL_ENV_CHECKS": checks,
            "KERNEL_ENV_PRECISION": precision,
        }
        verdict = evaluate_here(options, code, task, language)
    if as_json:
        out.print(json.dumps(verdict), markup=False)
    else:
        show(verdict)
    raise typer.Exit(0 if verdict["stage"] == "passed" else 1)


def show(verdict: Verdict) -> None:
    """Stage, feedback and numbers; what was not measured is left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, unit in (
        ("stage", ""),
        ("speedup", "x"),
        ("runtime_ms", " ms"),
        ("ref_runtime_ms", " ms"),
        ("compiled_runtime_ms", " ms"),
        ("reward", ""),
    ):
        value = verdict.get(name)
        if value is not None:
            text = f"{value:.4g}{unit}" if isinstance(value, float) else str(value)
            table.add_row(name, Text(text, "bold"))
    out.print(table)
    out.print(verdict["feedback"], markup=False)


def read_code(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {error}", USAGE)


def language_of(code: str, named: str) -> str:
    """The one that was named, or for `AUTO` what the code uses."""
    from kernel_env.extract import extract_code
    from kernel_env.server.languages import guess

    return guess(extract_code(code)) if named == AUTO else named


def ask_server(url: str, code: str, task_id: str, language: str) -> Verdict:
    leave_gradio_out()
    with progress("Starting the client"):
        from kernel_env import KernelAction, KernelEnv, KernelEnvError
    try:
        with KernelEnv(base_url=url).sync() as env:
            with progress(f"Asking {url} for {task_id}"):
                env.reset(task_id=task_id, language=language)
            with progress("Evaluating"):
                result = env.step(KernelAction(code=code))
    except (KernelEnvError, ConnectionError) as error:
        fail(error, USAGE)
    return dict(result.observation.model_dump(exclude={"problem", "done"}))


def evaluate_here(options: dict[str, str | None], code: str, task_id: str, language: str) -> Verdict:
    from kernel_env.extract import extract_code
    from kernel_env.server.outcome import EvaluationRequest, TaskSource
    from kernel_env.server.task_sources import TaskError

    settings = settings_from(options)
    try:
        task = load_tasks(settings).get(task_id)
    except TaskError as error:
        fail(error, USAGE)
    request = EvaluationRequest(
        id="eval",
        task=TaskSource(id=task.id, source=task.source, hash=task.hash),
        language=language,
        code=extract_code(code),
        budget_s=settings.step_timeout_s,
    )
    return asyncio.run(_run(settings, request))


async def _run(settings: Settings, request: EvaluationRequest) -> Verdict:
    from kernel_env.toolkit.evaluators import shown

    pool = pool_of(settings)
    try:
        with progress("Starting a worker"):
            await pool.start()
            if await pool.ready(READY_S) is None:
                fail(f"no device can evaluate: {pool.health()['message'] or 'none became ready'}", USAGE)
        with progress("Evaluating"):
            evaluation = await pool.evaluate(request)
    finally:
        await pool.close()
    return {
        **dict.fromkeys(("speedup", "runtime_ms", "ref_runtime_ms")),
        **shown(evaluation, request.task.id, request.language, settings),
        "mock": evaluation.device.kind == "mock",
        "metadata": {**evaluation.model_dump(exclude={"outcome"}), "precision": settings.precision},
    }
