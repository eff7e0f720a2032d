"""What the commands share: the two consoles, progress with elapsed seconds, settings, and how to fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from kernel_env.server.config import Settings
    from kernel_env.server.pool import Pool
    from kernel_env.server.tasks import TaskSet

USAGE = 2
LANGUAGES = "triton, cuda, cpp, helion or a plug-in's."
AUTO = "auto"

# A pipe has no width of its own: lines stay whole there.
PIPE_WIDTH = 400

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: object, status: int = 1) -> NoReturn:
    """End the command with one line on stderr."""
    err.print(f"kernel-env: {message}", style="red", markup=False)
    raise typer.Exit(status)


def check_language(name: str, *others: str) -> None:
    """Ends the command unless it is a language, or one of `others`."""
    from kernel_env.server import languages

    try:
        known = (*others, *languages.known())
    except languages.LanguageError as error:
        fail(error, USAGE)
    if name not in known:
        fail(f"--language {name!r} is not allowed; use one of: {', '.join(known)}", USAGE)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A line with the seconds so far while the block runs; on a pipe, one line when it begins."""
    if not err.is_terminal:
        err.print(f"{text} ...", markup=False)
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        bar.add_task(text, total=None)
        yield


@contextmanager
def steps(text: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar with the time left, for `total` steps; what is yielded takes each step's line.

    On a pipe, one line when it begins and one for each step.
    """
    if not err.is_terminal:
        err.print(f"{text}: {total} ...", markup=False)
        yield lambda line: err.print(line, markup=False)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(text, total=total)

        def step(line: str) -> None:
            bar.console.print(line, markup=False)
            bar.advance(task)

        yield step


def settings_from(options: Mapping[str, object]) -> Settings:
    """Settings of the environment with a command's options on top; ends the command where one is wrong."""
    from kernel_env.server.config import Settings, SettingsError

    given = {name: str(value) for name, value in options.items() if value is not None}
    try:
        return Settings.from_env({**os.environ, **given})
    except SettingsError as error:
        fail(error, USAGE)


def load_tasks(settings: Settings) -> TaskSet:
    """The tasks that the settings name; ends the command where a source cannot be read."""
    from kernel_env.server.tasks import TaskError, TaskSet

    try:
        return TaskSet.load(settings)
    except TaskError as error:
        fail(error, USAGE)


def pool_of(settings: Settings) -> Pool:
    """The pool that the settings name, not started; ends the command where a package for it is missing."""
    from kernel_env.server.config import SettingsError
    from kernel_env.server.pools import pool_for

    try:
        return pool_for(settings)
    except SettingsError as error:
        fail(error, USAGE)


def leave_gradio_out() -> None:
    """Keep openenv from importing gradio (most of its start time) in this process, which shows no web page.

    openenv supports its absence. Only a process of our own may do this: the effect lasts for its lifetime.
    """
    sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]
