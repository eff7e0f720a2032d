"""`kernel-env doctor`: what this machine can evaluate, and how to get what is missing."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from . import machine
from .console import load_tasks, out, progress, settings_from

_STYLES = {"ok": "green", "note": "yellow", "missing": "red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The facts as one JSON list.")] = False,
) -> None:
    """Say which device, versions and task sources there are. Status 1 if no submission can be evaluated."""
    settings = settings_from({})
    with progress("Asking torch, compilers and the kernel"):
        facts = [*machine.packages(), *machine.device(settings.peaks), *machine.compilers(), *machine.sandbox()]
    facts.append(machine.counters())
    facts += [machine.Fact("evaluator", settings.evaluator), machine.pool(settings.pool)]
    facts += _tasks()
    if as_json:
        out.print(json.dumps([dataclasses.asdict(fact) for fact in facts]), markup=False)
    else:
        out.print(_table(facts))
    if any(fact.state == "missing" for fact in facts) and settings.evaluator != "mock":
        raise typer.Exit(1)


def _tasks() -> list[machine.Fact]:
    settings = settings_from({})
    tasks = load_tasks(settings).all()
    broken = sum(task.fault is not None for task in tasks)
    lacking = sum(task.missing is not None for task in tasks)
    told = f"{len(tasks) - broken - lacking} usable from {', '.join(settings.tasks)}"
    if broken or lacking:
        told += f"; {broken} broken, {lacking} unavailable"
        return [machine.Fact("tasks", told, "note", "kernel-env tasks list says why")]
    return [machine.Fact("tasks", told)]


def _table(facts: list[machine.Fact]) -> Table:
    table = Table("", "", "", "to get it", box=None, pad_edge=False, show_header=False)
    for fact in facts:
        table.add_row(
            Text(fact.state, style=_STYLES[fact.state]), fact.name, Text(fact.value), Text(fact.advice, "dim")
        )
    return table
