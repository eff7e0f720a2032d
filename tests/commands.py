"""Commands of the command line in this process: for what needs neither a process nor its exit of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

from typer.testing import CliRunner

from kernel_env.cli import app


@dataclass(frozen=True)
class Done:
    """As `subprocess.CompletedProcess` has it."""

    returncode: int
    stdout: str
    stderr: str


def invoke(*arguments: str, **environ: str) -> Done:
    """Without the settings of whoever runs the tests. What is no exit of the command is raised."""
    foreign = {name: None for name in os.environ if name.startswith(("KERNEL", "OPENAI"))}
    result = CliRunner(env={**foreign, **environ}).invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)
