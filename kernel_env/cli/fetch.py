"""`kernel-env tasks fetch`: put what tasks need of Hugging Face's models into its cache, once, before serving.

The one place that asks the hub for models; evaluation is always offline. Without network it says so and ends: the
hub's own client bounds every wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .console import fail, load_tasks, out, progress, settings_from

if TYPE_CHECKING:
    from kernel_env.server.tasks import Task

CONNECT_S = 10.0


def fetch(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="All tasks, if none is named.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Their weights too, gigabytes each.")] = False,
    sources: Annotated[str | None, typer.Option("--tasks", help="Task sources [KERNEL_ENV_TASKS].")] = None,
) -> None:
    """Fetch the configurations of the models that tasks name; without their weights, random ones are used."""
    from kernel_env.server import model_cache
    from kernel_env.server.tasks import TaskError

    tasks = load_tasks(settings_from({"KERNEL_ENV_TASKS": sources}))
    try:
        chosen = [tasks.known(task_id) for task_id in ids] if ids else list(tasks.all())
    except TaskError as error:
        fail(error)
    models = _models(chosen)
    for name in models:
        if not model_cache.has_config(name):
            _download(name, [model_cache.CONFIG])
        if weights and not model_cache.has_weights(name):
            _download(name, model_cache.WEIGHTS)
        told = "own weights" if model_cache.has_weights(name) else "random weights"
        out.print(f"{name}: configuration, {told}", markup=False)
    if not models:
        out.print("no task names a model")


def _models(tasks: list[Task]) -> list[str]:
    return list(dict.fromkeys(name for task in tasks if task.outside for name in task.outside.models))


def _download(name: str, files: list[str] | tuple[str, ...]) -> None:
    """The first of `files` that the hub has; ends the command where there is none."""
    import httpx
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    from kernel_env.server import model_cache

    for file in files:
        try:
            with progress(f"Fetching {file} of {name}"):
                hf_hub_download(name, file, cache_dir=model_cache.folder(), etag_timeout=CONNECT_S)
            return
        except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, httpx.HTTPError, OSError) as error:
            if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
                continue
            reason = str(error).strip().splitlines() or [type(error).__name__]
            fail(f"{file} of {name} cannot be fetched: {reason[0]}")
    fail(f"the hub has no {' or '.join(files)} of {name}")
