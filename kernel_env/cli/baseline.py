"""`kernel-env baseline`: time the references, eager and under `torch.compile`, into KernelBench's baseline files.

Status 0 when every chosen reference has its times, 1 when some could not be measured. What a file holds already is
not measured again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import USAGE, err, fail, load_tasks, out, pool_of, progress, settings_from, steps

if TYPE_CHECKING:
    from kernel_env.server.config import Settings
    from kernel_env.server.tasks import Task
    from kernel_env.toolkit.references import Measured

READY_S = 300.0
# Compilers that search for the best kernels take minutes, which a submission would not get.
COMPILE_S = 900.0


def baseline(
    folder: Annotated[
        Path, typer.Option("--out", "-o", help="Files go into a folder of the hardware's name in here.")
    ] = Path("results/timing"),
    hardware: Annotated[str | None, typer.Option(help="That folder's name; the device's by default.")] = None,
    modes: Annotated[
        str, typer.Option(help="By commas: eager, default, reduce-overhead, max-autotune, ..., cudagraphs.")
    ] = "eager,default",
    level: Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")] = None,
    problems: Annotated[str | None, typer.Option(help="Only these problems, such as 1-10,23.")] = None,
    evaluator: Annotated[str | None, typer.Option(help="auto, gpu or cpu [KERNEL_ENV_EVALUATOR].")] = None,
    gpus: Annotated[str | None, typer.Option(help="Device indices, as in 0,1 [KERNEL_ENV_GPUS].")] = None,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources [KERNEL_ENV_TASKS].")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, fp16 or bf16 [KERNEL_ENV_PRECISION].")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure also what a file holds.")] = False,
) -> None:
    """Time the references of the tasks into baseline_time_*.json."""
    from kernel_env.toolkit.baselines import BaselineError
    from kernel_env.toolkit.folder import FolderError
    from kernel_env.toolkit.problems import SelectionError
    from kernel_env.toolkit.references import VARIANTS

    options = {
        "KERNEL_ENV_EVALUATOR": evaluator,
        "KERNEL_ENV_GPUS": gpus,
        "KERNEL_ENV_TASKS": sources,
        "KERNEL_ENV_PRECISION": precision,
    }
    settings = settings_from(options)
    if settings.evaluator == "mock":
        fail("the mock evaluator runs nothing; use auto, gpu or cpu", USAGE)
    variants = list(dict.fromkeys(modes.replace(" ", "").split(",")))
    for variant in variants:
        if variant not in VARIANTS:
            fail(f"--modes {variant!r} is not allowed; use some of: {', '.join(VARIANTS)}", USAGE)
    try:
        tasks = _chosen(settings, level, problems)
        missing = asyncio.run(_measure(settings, tasks, variants, folder, hardware, again))
    except (BaselineError, FolderError, SelectionError, OSError) as error:
        fail(error, USAGE)
    raise typer.Exit(1 if missing else 0)


def _chosen(settings: Settings, level: list[int] | None, problems: str | None) -> list[Task]:
    from kernel_env.toolkit.problems import by_place, numbers, select

    tasks = load_tasks(settings)
    wanted = None if problems is None else numbers(problems)
    return [tasks.get(task_id) for task_id in select(by_place(tasks.ids()), level, wanted).values()]


async def _measure(
    settings: Settings,
    tasks: Sequence[Task],
    variants: Sequence[str],
    folder: Path,
    hardware: str | None,
    again: bool,
) -> list[Measured]:
    """What could not be measured."""
    from kernel_env.toolkit.folder import locked
    from kernel_env.toolkit.references import Timings, in_precision, measure

    patient = dataclasses.replace(
        settings,
        correctness_timeout_s=max(settings.correctness_timeout_s, COMPILE_S),
        step_timeout_s=max(settings.step_timeout_s, 2 * COMPILE_S),
    )
    pool = pool_of(patient)
    await pool.start()
    try:
        with progress("Starting the workers"):
            device = await pool.ready(READY_S)
        if device is None:
            fail(f"no device can evaluate: {pool.health()['message'] or 'none became ready'}", USAGE)
        named = hardware or in_precision(re.sub(r"[^\w.-]+", "_", device.name), settings.precision)
        files = Timings(folder / named, device.name, again, settings.precision)
        files.folder.mkdir(parents=True, exist_ok=True)
        with locked(files.folder):
            work = [(task, one) for one in variants for task in tasks if again or not files.has(task.id, one)]
            at_once = len(pool.health()["devices"])
            try:
                with steps("Measuring", len(work)) as step:
                    async for result in measure(pool, device, work, patient.step_timeout_s, at_once):
                        step(files.take(result))
            finally:
                files.save()
        for variant in variants:
            out.print(str(files.file(variant)), markup=False)
        for result in files.missing:
            err.print(f"{result.task_id} {result.variant}: {result.reason}", style="yellow", markup=False)
        return files.missing
    finally:
        await pool.close()
