"""`kernel-env tasks audit`: each task's reference against itself on this machine's device.

Status 0 only if every audited task passed. With `--mutants`, wrong answers instead of the reference itself, see
`mutants`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import USAGE, err, fail, load_tasks, out, pool_of, progress, settings_from
from .mutants import audit_mutants

if TYPE_CHECKING:
    from kernel_env.server.audit import Row, Summary
    from kernel_env.server.config import Settings
    from kernel_env.server.tasks import Task, TaskSet

READY_S = 300.0
BUDGET_S = 600.0
AT_ONCE = 2


def audit(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="All tasks, if none is named.")
    ] = None,
    level: Annotated[int | None, typer.Option(help="Only this level.")] = None,
    evaluator: Annotated[str | None, typer.Option(help="auto, gpu or cpu [KERNEL_ENV_EVALUATOR].")] = None,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources [KERNEL_ENV_TASKS].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Which wrong answers allclose, standard and strict checks accept.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="With --mutants: rows are kept here, and tasks that have one are skipped.")
    ] = None,
) -> None:
    """Run each reference against itself through the whole path: verdict, speedup, spread, memory, seconds."""
    if resume is not None and not mutants:
        fail("--resume goes with --mutants", USAGE)
    settings = settings_from({"KERNEL_ENV_EVALUATOR": evaluator, "KERNEL_ENV_TASKS": sources})
    if settings.evaluator == "mock":
        fail("the mock evaluator runs nothing; use auto, gpu or cpu", USAGE)
    tasks = load_tasks(settings)
    chosen = _chosen(tasks, ids, level)
    if mutants:
        raise typer.Exit(audit_mutants(settings, chosen, resume, as_json))
    rows = asyncio.run(_audit(settings, chosen, as_json))
    raise typer.Exit(0 if all(row.verdict == "passed" for row in rows) else 1)


def _chosen(tasks: TaskSet, ids: list[str] | None, level: int | None) -> list[Task]:
    """Says which tasks are left out because they are unavailable here; ends the command if none is left."""
    from kernel_env.server.tasks import TaskError

    try:
        found = [tasks.get(task_id) for task_id in ids or tasks.ids()]
    except TaskError as error:
        fail(error, USAGE)
    for task in () if ids else tasks.all():
        if task.missing and level in (None, task.level):
            err.print(f"{task.id} is left out: {task.missing}", style="yellow", markup=False)
    chosen = [task for task in found if level in (None, task.level)]
    if not chosen:
        fail("no usable task among those asked for; `kernel-env tasks list` says why", USAGE)
    return chosen


async def _audit(settings: Settings, tasks: Sequence[Task], as_json: bool) -> list[Row]:
    from kernel_env.server.audit import audit, summarize

    pool = pool_of(dataclasses.replace(settings, pool="local"))
    await pool.start()
    try:
        with progress("Starting the workers"):
            device = await pool.ready(READY_S)
        if device is None:
            fail(f"no device can evaluate: {pool.health()['message'] or 'none became ready'}", USAGE)
        if not as_json:
            versions = ", ".join(f"{name} {version}" for name, version in device.versions.items())
            out.print(f"{device.name}  {versions}", markup=False)
            out.print(HEADER, style="bold", markup=False)
        started, rows = time.monotonic(), []
        async for row in audit(pool, device, tasks, BUDGET_S, AT_ONCE * len(pool.health()["devices"])):
            rows.append(row)
            out.print(
                json.dumps(dataclasses.asdict(row)) if as_json else _line(row), markup=False, highlight=False
            )
        summary = summarize(rows, time.monotonic() - started)
        err.print(_closing(summary) if not as_json else json.dumps(dataclasses.asdict(summary)), markup=False)
        return rows
    finally:
        await pool.close()


HEADER = f"{'task':58} {'verdict':14} {'speedup':>8} {'spread':>7} {'ms':>9} {'GiB':>6} {'s':>6}"


def _line(row: Row) -> str:
    speedup = f"{row.speedup:.3f}" if row.speedup is not None else "-"
    spread = f"{100 * row.spread:.1f} %" if row.spread is not None else "-"
    runtime = f"{row.runtime_ms:.4g}" if row.runtime_ms is not None else "-"
    memory = f"{row.peak_bytes / 2**30:.1f}" if row.peak_bytes is not None else "-"
    line = (
        f"{row.task_id:58} {row.verdict:14} {speedup:>8} {spread:>7} {runtime:>9} {memory:>6} {row.seconds:6.1f}"
    )
    return f"{line}\n    {row.message[:300]}" if row.message else line


def _closing(summary: Summary) -> str:
    spread = f"{100 * summary.median_spread:.2f} %" if summary.median_spread is not None else "none"
    return (
        f"{summary.passed} of {summary.tasks} passed, {summary.one} of {summary.timed} timed ones with a speedup"
        f" of 1.00 +/- 0.02, median spread {spread}, {summary.seconds:.0f} s"
    )
