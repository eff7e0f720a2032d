"""`kernel-env tasks audit --mutants`: which checks accept which wrong answers, over tasks, as a table with
reasons.

One device, one task at a time. Rows go to a file if one is named, so that an audit that was broken off goes on
where it was. Status 0 only if every task has a row without a fault.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from .console import USAGE, err, fail, out

if TYPE_CHECKING:
    from kernel_env.server.config import Settings
    from kernel_env.server.mutation import Row
    from kernel_env.server.tasks import Task


def audit_mutants(settings: Settings, tasks: Sequence[Task], file: Path | None, as_json: bool) -> int:
    """The command's status."""
    from kernel_env.server.mutation import known

    try:
        old = known(file) if file else {}
    except (OSError, ValueError) as error:
        fail(error, USAGE)
    hashes = {task.id: task.hash for task in tasks}
    done = [row for row in old.values() if hashes.get(row.task_id) == row.hash and not row.fault]
    finished = {row.task_id for row in done}
    missing = [task for task in tasks if task.id not in finished]
    found = [*done, *asyncio.run(_audit(settings, missing, file, as_json))]
    if as_json:
        out.print(json.dumps({"summary": _summary(found)}), markup=False)
    else:
        _show(found)
    return int(any(row.fault for row in found))


async def _audit(settings: Settings, tasks: Sequence[Task], file: Path | None, as_json: bool) -> list[Row]:
    from kernel_env.server.child import StartFailed
    from kernel_env.server.local import device_kind, visible_gpus
    from kernel_env.server.mutation import rows

    kind = device_kind(settings)
    index = (settings.gpus or visible_gpus() or ("0",))[0] if kind == "cuda" else ""
    found = []
    try:
        with file.open("a") if file else nullcontext() as kept:
            async for row in rows(tasks, kind, index):
                found.append(row)
                if kept:
                    kept.write(row.json() + "\n")
                    kept.flush()
                out.print(row.json() if as_json else _line(row), markup=False, highlight=False)
    except StartFailed as error:
        fail(error)
    except OSError as error:
        fail(f"cannot keep rows in {file}: {error}", USAGE)
    return found


def _line(row: Row) -> str:
    if row.fault:
        return f"{row.task_id:58} {row.fault}"
    passed = [name for name, found in row.mutants.items() if found["accepted"].get("strict")]
    told = row.note or f"accepted: {', '.join(passed) or 'none'}"
    return f"{row.task_id:58} {row.seconds:6.1f} s  {told}"


def _summary(rows: Sequence[Row]) -> dict[str, object]:
    from kernel_env.server.mutation import counts, survivors

    return {
        "tasks": len(rows),
        "accepted": counts(rows),
        "survivors": survivors(rows),
        "notes": {row.task_id: row.note for row in rows if row.note},
        "faults": {row.task_id: row.fault for row in rows if row.fault},
    }


def _show(rows: Sequence[Row]) -> None:
    from kernel_env.server.mutation import RULES, counts, survivors

    table = Table("mutant", box=None, pad_edge=False, title="Tasks that accept it", title_justify="left")
    for heading in ("of", *RULES):
        table.add_column(heading, justify="right")
    for name, found in counts(rows).items():
        table.add_row(name, str(found["tasks"]), *[str(found[rule]) for rule in RULES])
    out.print(table)
    for name, task_id, why in survivors(rows):
        out.print(f"strict accepts {name} on {task_id}: {why}", markup=False)
    for row in rows:
        if row.note:
            out.print(f"left out under strict: {row.task_id}: {row.note}", markup=False)
    faults = [row for row in rows if row.fault]
    if faults:
        err.print(f"{len(faults)} tasks have no result: {', '.join(row.task_id for row in faults)}", markup=False)
