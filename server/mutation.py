"""An audit of mutants: for each task and each wrong answer, whether `allclose`, `standard` and `strict` accept it.

Rows come as they are done, one task at a time on one device, from a process of their own; a task that ends it, or
takes longer than `TASK_S`, has a row that says so, and the next one gets a new process. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .child import Child
from .finish import finish
from .folders import Claim
from .frames import FrameError
from .sandbox import trusted_environment
from .tasks import Task

START_S = 150.0
TASK_S = 600.0
RULES = ("allclose", "standard", "strict")


@dataclass(frozen=True)
class Row:
    """One task. `mutants`: by name `accepted` by rule (None: means nothing here), and of strict checks `why` or

    by what it was `refused`. `note`: why the task is left out of the splits under strict checks. `fault`: why
    there is nothing.
    """

    task_id: str
    hash: str
    note: str = ""
    fault: str = ""
    products: bool = False
    families: list[str] = field(default_factory=list)
    mutants: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    def json(self) -> str:
        return json.dumps(asdict(self))


async def rows(tasks: Sequence[Task], kind: str, index: str) -> AsyncIterator[Row]:
    """Raises `StartFailed`."""
    claim = Claim()
    child: Child | None = None
    try:
        for task in tasks:
            if child is None or not child.alive:
                child = await _start(kind, index, claim.path)
            yield await _row(child, task)
            if not child.alive:
                await child.stop()
    finally:
        if child is not None:
            await finish(child.stop())
        claim.release()


async def _start(kind: str, index: str, folder: str) -> Child:
    visible = index if kind == "cuda" else ""
    environment = trusted_environment({"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    device = "cuda:0" if kind == "cuda" else "cpu"
    return await Child.start("mutant_judge", [device], environment, folder, START_S)


async def _row(child: Child, task: Task) -> Row:
    try:
        reply = await child.ask({"id": task.id, "source": task.source}, timeout_s=TASK_S, last="row")
    except FrameError as error:
        return Row(task.id, task.hash, fault=f"the audit's process was lost: {error}")
    return Row(task.id, task.hash, **reply["row"])


def known(file: Path) -> dict[str, Row]:
    """The rows of an earlier run, by task; of several for one task the last. Raises `ValueError`."""
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    try:
        return {line["task_id"]: Row(**line) for line in lines}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} holds something else than rows of an audit of mutants: {error}") from None


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By mutant and rule, how many tasks accept it; `strict` alone leaves out tasks that carry a note."""
    names = list(dict.fromkeys(name for row in rows for name in row.mutants))
    return {
        name: {rule: sum(_accepts(row, name, rule) for row in rows) for rule in RULES}
        | {"tasks": sum(_applies(row, name) for row in rows)}
        for name in names
    }


def survivors(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Mutant, task and reason of each that strict checks accept on a task without a note."""
    return [
        (name, row.task_id, str(row.mutants[name].get("why", "")))
        for row in rows
        for name in row.mutants
        if _accepts(row, name, "strict")
    ]


def _accepts(row: Row, name: str, rule: str) -> bool:
    if rule == "strict" and row.note:
        return False
    return row.mutants.get(name, {}).get("accepted", {}).get(rule) is True


def _applies(row: Row, name: str) -> bool:
    return any(each is not None for each in row.mutants.get(name, {}).get("accepted", {}).values())
