"""The command line, `kernel-env`: one module for each command; the only part of the package that prints.

Modules here import nothing heavy: torch never, openenv and the server only inside the command that needs
them, so that `kernel-env --help` answers at once. Wrong settings end a command with one line and status 2.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kernel_env import __version__

from . import (
    baseline,
    conformance,
    demo,
    doctor,
    eval_run,
    evaluate,
    evolve,
    generate,
    profile,
    report,
    score,
    serve,
    tasks,
)
from .console import out


def _version(wanted: bool) -> None:
    if wanted:
        out.print(__version__)
        raise typer.Exit


app = typer.Typer(
    name="kernel-env",
    help="An OpenEnv environment that trains agents to write fast, correct GPU kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.add_typer(tasks.app, name="tasks")
app.command("eval")(evaluate.evaluate)
app.command("eval-run")(eval_run.eval_run)
app.command("score")(score.score)
app.command("profile")(profile.profile)
app.command("baseline")(baseline.baseline)
app.command("generate")(generate.generate)
app.command("generate-and-eval")(generate.generate_and_eval)
app.command("report")(report.report)
app.command("export")(report.export)
app.command("evolve", cls=evolve.Command)(evolve.evolve)
app.command("conformance")(conformance.conformance)
app.command("doctor")(doctor.doctor)


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The console script."""
    app()
