"""`kernel-env evolve`: rewrite a task's `Model` into a verified kernel, with a model behind any OpenAI-compatible
endpoint and the environment as the judge.

Status 0 verified and faster, 1 verified but not faster, 2 nothing correct, 3 configuration, 4 endpoint or
evaluator, 130 interrupted; the run is saved in each case but 3.
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from .console import LANGUAGES, err, fail, leave_gradio_out, load_tasks, out, settings_from

if TYPE_CHECKING:
    from kernel_env.evolve import EvolveConfig, EvolveResult, KernelEvolve, LLMConfig
    from kernel_env.evolve.evaluator import GPUEvaluator

CONFIGURATION = 3

# click's UsageError, of whichever click this typer is built on.
_USAGE_ERROR: type[BaseException] = typer.BadParameter.__mro__[1]

# Options that are settings by another name.
_SETTINGS = {
    "model": "llm.model_name",
    "base_url": "llm.base_url",
    "api_key_env": "llm.api_key_env",
    "strategy": "search.strategy",
    "seed": "search.seed",
    "max_evals": "budget.evaluations",
    "max_calls": "budget.calls",
    "max_tokens": "budget.tokens",
    "max_usd": "budget.usd",
    "max_gpu_seconds": "budget.gpu_seconds",
    "max_time": "budget.wall_seconds",
    "target_speedup": "stop.target_speedup",
    "patience": "stop.patience",
    "parallel_llm": "parallel.llm",
    "parallel_eval": "parallel.evaluations",
    "language": "evaluator.language",
    "evaluator": "evaluator.kind",
    "url": "evaluator.url",
}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Command(TyperCommand):
    """Wrong options have the status of a wrong configuration: 2 says that nothing was correct."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            vars(error)["exit_code"] = CONFIGURATION
            raise


def evolve(
    ctx: typer.Context,
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A task's id or file; --resume and --replay need none.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as YAML.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="One setting, over the file's.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, as its endpoint calls it.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The endpoint [OPENAI_BASE_URL].")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The variable that holds its key [OPENAI_API_KEY].")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header for the endpoint.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="refine, best_of_n, beam or islands.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything that is left to chance.")] = None,
    max_evals: Annotated[int | None, typer.Option(help="Evaluations, confirmations included.")] = None,
    max_calls: Annotated[int | None, typer.Option(help="Requests to the endpoint.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of prompts and answers together.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="US dollars; needs the model's price.")] = None,
    max_gpu_seconds: Annotated[float | None, typer.Option(help="Seconds of evaluation on the device.")] = None,
    max_time: Annotated[str | None, typer.Option(help="Wall time, such as 90s, 30m, 2h.")] = None,
    target_speedup: Annotated[float | None, typer.Option(help="Stop at this confirmed speedup.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many candidates without a new best.")] = None,
    parallel_llm: Annotated[int | None, typer.Option(help="Requests at one time.")] = None,
    parallel_eval: Annotated[int | None, typer.Option(help="Evaluations at one time.")] = None,
    language: Annotated[str | None, typer.Option(help=LANGUAGES)] = None,
    url: Annotated[str | None, typer.Option(help="A running server; without it, evaluate here.")] = None,
    evaluator: Annotated[str | None, typer.Option(help="auto, gpu, cpu or mock, without --url.")] = None,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources [KERNEL_ENV_TASKS].")] = None,
    run_dir: Annotated[Path | None, typer.Option(help="The run's folder; a new one below runs/.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")] = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Copy answers and evaluations here.")] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Take them from here; asks nobody.")] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Spend the budget once more on independent drafts.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it can cost, and send nothing.")] = False,
    print_config: Annotated[bool, typer.Option("--print-config", help="Print all settings and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Evolve a task's Model into a verified kernel. Status 0 only if one is verified and faster."""
    from kernel_env.evolve import ConfigError, EvolveError

    from .evolve_view import Plain, View

    given = {name: value for name, value in ctx.params.items() if name in _SETTINGS and value is not None}
    try:
        if replay is not None:
            run = _replayed(replay, run_dir)
        else:
            settings = _settings(config or _saved(resume), given, assign or [])
            if print_config:
                out.print(settings.to_yaml(), markup=False, end="")
                return
            source, task_id = _task(task, resume, sources)
            llm = _llm(settings, header or [], dry_run)
            if dry_run:
                _estimate(source, settings, llm, as_json)
                return
            judge = _evaluator(settings, task_id)
            run = _made(source, llm, judge, settings, run_dir or resume, resume is not None, record, control)
        view = nullcontext() if quiet else View() if err.is_terminal else Plain()
        with view as watch:
            run.watch = watch
            result = run.evolve()
    except ConfigError as error:
        fail(error, CONFIGURATION)
    except EvolveError as error:
        fail(error, error.status)
    _show(result, as_json)
    raise typer.Exit(result.status)


def _saved(resume: Path | None) -> Path | None:
    return resume / "config.yaml" if resume is not None and (resume / "config.yaml").is_file() else None


def _settings(file: Path | None, given: dict[str, Any], assign: list[str]) -> EvolveConfig:
    """The file, then `--set`, then the options of their own name."""
    from kernel_env.evolve import EvolveConfig

    named = {_SETTINGS[name]: value for name, value in given.items()}
    if "budget.wall_seconds" in named:
        named["budget.wall_seconds"] = _seconds(str(named["budget.wall_seconds"]))
    options = [f"{path}={json.dumps(value)}" for path, value in named.items()]
    return EvolveConfig.load(file, [*assign, *options])


def _seconds(text: str) -> float:
    from kernel_env.evolve import ConfigError

    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        return float(number) * _UNITS[unit]
    except ValueError:
        raise ConfigError(f"--max-time {text!r} is no duration; write 90s, 30m or 2h") from None


def _task(task: str | None, resume: Path | None, sources: str | None) -> tuple[str, str | None]:
    """Its text, and its id where it is one of a task source."""
    from kernel_env.evolve import ConfigError
    from kernel_env.evolve.journal import read

    if task is None and resume is not None:
        return str(read(resume / "run.jsonl")[0]["initial_code"]), None
    if task is None:
        raise ConfigError("name a TASK: an id, such as level1/e01_RowSoftmax, or a file")
    if task.endswith(".py") or Path(task).is_file():
        try:
            return Path(task).read_text(), None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {task}: {error}") from error
    return _known(task, sources), task


def _known(task_id: str, sources: str | None) -> str:
    from kernel_env.evolve import ConfigError
    from kernel_env.server.task_sources import TaskError

    try:
        return load_tasks(settings_from({"KERNEL_ENV_TASKS": sources})).get(task_id).source
    except TaskError as error:
        raise ConfigError(str(error)) from error
    except typer.Exit:
        # The reason was told; only the status is this command's own.
        raise typer.Exit(CONFIGURATION) from None


def _llm(settings: EvolveConfig, headers: list[str], dry_run: bool) -> LLMConfig:
    from kernel_env.evolve import ConfigError, LLMConfig
    from kernel_env.evolve.redact import MARK

    section = settings.llm
    found = dict(section.headers)
    for text in headers:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--header {text.partition('=')[0]!r} is none; write NAME=VALUE")
        found[name] = value
    hidden = [name for name, value in found.items() if MARK in value]
    if hidden or MARK in (section.base_url or ""):
        told = f"--header {hidden[0]}=..." if hidden else "--base-url"
        raise ConfigError(f"a saved run keeps no secrets: give {told} again")
    options = dict(section.options)
    if found:
        options["default_headers"] = {**found, **options.get("default_headers", {})}
    if not section.model_name:
        raise ConfigError("no model: name one by --model, or as llm.model_name")
    key = os.environ.get(section.api_key_env) or ("none" if dry_run else "")
    if not key:
        raise ConfigError(
            f"no key for the model's endpoint: set {section.api_key_env} (to none, for an endpoint without keys)"
            " or name the variable that holds it by --api-key-env"
        )
    return LLMConfig(section.model_class, section.model_name, key, section.base_url, **options)


def _evaluator(settings: EvolveConfig, task_id: str | None) -> GPUEvaluator:
    from kernel_env.evolve import GPUEvaluator

    section = settings.evaluator
    if section.url:
        leave_gradio_out()
    return GPUEvaluator(
        section.url,
        language=section.language,
        kind=section.kind,
        token=os.environ.get(section.token_env),
        task_id=task_id if section.url else None,
    )


def _made(
    source: str,
    llm: LLMConfig,
    evaluator: GPUEvaluator,
    settings: EvolveConfig,
    run_dir: Path | None,
    resume: bool,
    record: Path | None,
    control: bool,
) -> KernelEvolve:
    from kernel_env.evolve import KernelEvolve

    return KernelEvolve(
        source, llm, evaluator, config=settings, run_dir=run_dir, resume=resume, record=record, control=control
    )


def _replayed(recording: Path, run_dir: Path | None) -> KernelEvolve:
    from kernel_env.evolve import KernelEvolve

    return KernelEvolve.replay(recording, run_dir=run_dir)


def _estimate(source: str, settings: EvolveConfig, llm: LLMConfig, as_json: bool) -> None:
    from kernel_env.evolve.estimate import estimate
    from kernel_env.evolve.task import check_form

    found = estimate(check_form(source), settings, llm)
    if as_json:
        out.print(json.dumps(found), markup=False)
        return
    for name, value in found.items():
        out.print(f"{name.replace('_', ' '):24} {'no limit known' if value is None else value}", markup=False)


def _show(result: EvolveResult, as_json: bool) -> None:
    if as_json:
        out.print(json.dumps(result.to_dict()), markup=False)
        return
    out.print(_line("best", result), markup=False)
    if result.control is not None:
        out.print(_line("control (best_of_n)", result.control), markup=False)
    for note in result.notes:
        out.print(f"note: {note}", style="yellow", markup=False)
    out.print(f"ended: {result.stop_reason}; saved in {result.run_dir}", style="dim", markup=False)


def _line(name: str, result: EvolveResult) -> str:
    spent = ", ".join(f"{value:g} {unit}" for unit, value in result.usage.to_dict().items() if value)
    best = result.best
    if best is None:
        return f"{name}: {result.result} [{spent}]"
    if best.speedup is None:
        return f"{name}: candidate {best.node}, verified, not timed on this device [{spent}]"
    low, high = best.speedup / best.spread, best.speedup * best.spread
    return (
        f"{name}: candidate {best.node}, {best.speedup:.3g}x ({low:.3g} to {high:.3g}), confirmed"
        f" {best.confirmations} time{'s' if best.confirmations > 1 else ''} [{spent}]"
    )
