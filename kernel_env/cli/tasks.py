"""`kernel-env tasks list|show|audit|fetch`: what the server would serve under the current settings."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .audit import audit
from .console import USAGE, fail, load_tasks, out, settings_from
from .fetch import fetch

if TYPE_CHECKING:
    from kernel_env.server.tasks import Task

app = typer.Typer(help="List, show, audit and fetch tasks.", no_args_is_help=True)

Sources = Annotated[
    str | None,
    typer.Option("--tasks", help="embedded, kernelbench, huggingface or paths, by commas [KERNEL_ENV_TASKS]."),
]


app.command("audit")(audit)
app.command("fetch")(fetch)


@app.command("list")
def list_tasks(
    split: Annotated[str | None, typer.Option(help="Only train or only eval.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    sources: Sources = None,
) -> None:
    """List every task with its split; one that cannot be used with the reason."""
    from kernel_env.server.tasks import SPLITS

    if split not in (None, *SPLITS):
        fail(f"--split {split!r} is not allowed; use one of: {', '.join(SPLITS)}", USAGE)
    found = load_tasks(settings_from({"KERNEL_ENV_TASKS": sources})).all()
    chosen = [task for task in found if split in (None, task.split)]
    if as_json:
        for task in chosen:
            out.print(json.dumps(_summary(task)), markup=False)
        return
    out.print(_table(chosen))
    broken = sum(task.fault is not None for task in chosen)
    lacking = sum(task.missing is not None for task in chosen)
    out.print(f"{len(chosen)} tasks, {broken} of them broken, {lacking} unavailable here", style="dim")


@app.command("show")
def show(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="Such as level1/e01_RowSoftmax.")],
    as_json: Annotated[bool, typer.Option("--json", help="All fields as one JSON object.")] = False,
    sources: Sources = None,
) -> None:
    """Print a task's source."""
    from kernel_env.server.tasks import TaskError

    tasks = load_tasks(settings_from({"KERNEL_ENV_TASKS": sources}))
    try:
        task = tasks.known(task_id)
    except TaskError as error:
        fail(error, USAGE)
    if as_json:
        out.print(json.dumps(dataclasses.asdict(task)), markup=False)
        return
    out.print(f"# {task.id}  split {task.split}  hash {task.hash}", style="dim", markup=False)
    out.print(task.source, markup=False, end="")


def _summary(task: Task) -> dict[str, object]:
    return {name: value for name, value in dataclasses.asdict(task).items() if name != "source"}


def _table(tasks: list[Task]) -> Table:
    table = Table("id", "split", "hash", "", box=None, pad_edge=False)
    for task in tasks:
        table.add_row(Text(task.id), task.split, task.hash, _note(task))
    return table


def _note(task: Task) -> Text:
    """Why the task cannot be used, or what its models have for weights."""
    if task.fault:
        return Text(task.fault, style="red")
    if task.missing:
        return Text(f"unavailable: {task.missing}", style="yellow")
    if task.undecided:
        return Text(f"in no split under strict checks: {task.undecided}", style="yellow")
    weights = task.outside.weights if task.outside else None
    return Text(f"{weights} weights" if weights else "", style="dim")
