"""`kernel-env profile`: what one call of a submission does on the device: its kernels, and what they achieve.

The submission is judged as by `eval`; the profile comes from the record of its kernels that is made there. Nsight
Compute counts in another run of the submission, without the sandbox, and so only where it is asked to.
Status 0 with a profile, 1 where the submission did not pass, 2 where there can be no profile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .console import AUTO, LANGUAGES, USAGE, check_language, fail, load_tasks, out, progress, settings_from
from .evaluate import ask_server, evaluate_here, language_of, read_code, show

if TYPE_CHECKING:
    from kernel_env.server.outcome import Profile
    from kernel_env.toolkit.counters import Counted

NOT_ASKED = "not read: --counters has Nsight Compute read them, for which FILE runs without the sandbox"
ELSEWHERE = "not read: Nsight Compute runs on this machine, not on the server's"
OFF = "the server makes no profiles: start it with KERNEL_ENV_PROFILE=true on a CUDA device"


def profile(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The submission; - reads standard input.")],
    task: Annotated[str, typer.Option(metavar="ID", help="Such as level1/e01_RowSoftmax.")],
    language: Annotated[str, typer.Option(help=f"{LANGUAGES[:-1]}; auto: by what FILE uses.")] = AUTO,
    url: Annotated[str | None, typer.Option(help="A running server; without it, evaluate here.")] = None,
    evaluator: Annotated[
        str | None, typer.Option(help="auto, gpu or mock, without --url [KERNEL_ENV_EVALUATOR].")
    ] = None,
    gpus: Annotated[str | None, typer.Option(help="The device's index, without --url [KERNEL_ENV_GPUS].")] = None,
    sources: Annotated[
        str | None, typer.Option("--tasks", help="Task sources, without --url [KERNEL_ENV_TASKS].")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, fp16 or bf16, without --url [KERNEL_ENV_PRECISION].")
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Nsight Compute's key metrics; FILE then runs without the sandbox.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one JSON object.")] = False,
) -> None:
    """Profile one submission: kernels, time, launches, bandwidth, FLOP/s, occupancy."""
    if url is None:
        check_language(language, AUTO)
    code = read_code(file)
    language = language_of(code, language)
    options = {
        "KERNEL_ENV_EVALUATOR": evaluator,
        "KERNEL_ENV_GPUS": gpus,
        "KERNEL_ENV_TASKS": sources,
        "KERNEL_ENV_PRECISION": precision,
        "KERNEL_ENV_PROFILE": "true",
    }
    if url is None:
        _require_device(options)
        verdict = evaluate_here(options, code, task, language)
    else:
        verdict = ask_server(url, code, task, language)
    if verdict["stage"] != "passed":
        show(verdict)
        raise typer.Exit(1)
    if verdict.get("profile") is None:
        fail(OFF if url is not None else verdict["feedback"].splitlines()[-1], USAGE)
    counted, why = _counters(counters, url, options, code, task, verdict)
    if as_json:
        told = {**verdict, "counters": [asdict(one) for one in counted], "counters_note": why}
        out.print(json.dumps(told), markup=False)
        return
    _show(verdict, counted, why)


def _require_device(options: Mapping[str, object]) -> None:
    """Ends the command where this machine can't profile."""
    settings = settings_from(options)
    if settings.pool != "local" or settings.evaluator == "mock":
        return
    from kernel_env.server.local import device_kind

    if device_kind(settings) == "cpu":
        fail("profiles need a CUDA device, and there is none here; --url asks a server that has one", USAGE)


def _counters(
    wanted: bool, url: str | None, options: Mapping[str, object], code: str, task_id: str, verdict: dict[str, Any]
) -> tuple[list[Counted], str]:
    """With why there are none."""
    if not wanted:
        return [], NOT_ASKED
    if url is not None or verdict["mock"]:
        return [], ELSEWHERE if url is not None else "not read: the mock evaluator runs nothing"
    from kernel_env.extract import extract_code
    from kernel_env.toolkit.counters import CountersError, Subject, count

    settings = settings_from(options)
    task = load_tasks(settings).get(task_id)
    gpu = settings.gpus[0] if settings.gpus else ""
    try:
        with progress("Counting"):
            return count(Subject(task.id, task.source, extract_code(code), settings.precision, gpu)), ""
    except CountersError as error:
        return [], f"not read: {error}"


def _show(verdict: Mapping[str, Any], counted: list[Counted], why: str) -> None:
    from kernel_env.server.outcome import Profile
    from kernel_env.server.profile import rates

    found = Profile.model_validate(verdict["profile"])
    idle_ms = max(found.runtime_ms - found.busy_ms, 0.0)
    if verdict["mock"]:
        out.print("The mock evaluator ran nothing: all of this is made up.", style="yellow")
    else:
        out.print(
            f"{found.runtime_ms:.4g} ms a call, {verdict['speedup']:.3g} times as fast as the reference;"
            f" {found.launches:g} launches, device busy for {found.busy_ms:.4g} ms, gaps of {idle_ms:.3g} ms",
            markup=False,
        )
        out.print(rates(found), markup=False)
    out.print(_kernels(found))
    if counted:
        out.print(_counted(counted))
    else:
        out.print(f"Counters {why}", style="dim", markup=False)


def _kernels(found: Profile) -> Table:
    from kernel_env.server.profile import extent, short

    table = Table(box=None, pad_edge=False)
    for name in ("kernel", "launches", "ms", "share", "grid", "block", "registers", "shared", "occupancy"):
        table.add_column(name, justify="left" if name == "kernel" else "right")
    for kernel in found.kernels:
        table.add_row(
            Text(short(kernel.name)),
            f"{kernel.launches:g}",
            f"{kernel.ms:.4g}",
            f"{kernel.share:.0%}",
            _or_dash(kernel.grid, extent),
            _or_dash(kernel.block, extent),
            _or_dash(kernel.registers, str) + (f" + {kernel.spills}" if kernel.spills else ""),
            _or_dash(kernel.shared_bytes, lambda size: f"{size / 1024:.3g} KiB"),
            _or_dash(kernel.occupancy, lambda share: f"{share:.0%}"),
        )
    if found.others:
        table.add_row("further kernels", f"{found.others:g}", f"{found.others_ms:.4g}", *[""] * 6)
    return table


def _counted(counted: list[Counted]) -> Table:
    from kernel_env.server.profile import short

    table = Table(box=None, pad_edge=False, title="Nsight Compute", title_justify="left")
    for name in ("kernel", "launches", "ms", "GB/s", "memory", "DRAM", "compute", "occupancy", "L2 hits"):
        table.add_column(name, justify="left" if name == "kernel" else "right")
    for one in counted:
        shares = [f"{share:.0%}" for share in one.shares.values()]
        table.add_row(Text(short(one.name)), str(one.launches), f"{one.ms:.4g}", f"{one.gb_s:.4g}", *shares)
    return table


def _or_dash(value: Any, form: Any) -> str:
    return "-" if value is None else str(form(value))
