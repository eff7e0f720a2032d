"""`kernel-env conformance`: hold the pool that the settings name to its contract, one line for each check."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .console import fail, out, progress, settings_from

if TYPE_CHECKING:
    from kernel_env.server.conformance import Result

_STYLES = {"held": "green", "not run": "yellow", "broken": "red"}


def conformance(
    pool: Annotated[str | None, typer.Option(help="local, ray or modal [KERNEL_ENV_POOL].")] = None,
    evaluator: Annotated[str | None, typer.Option(help="auto, gpu, cpu or mock [KERNEL_ENV_EVALUATOR].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The results as one JSON list.")] = False,
) -> None:
    """Start the pool as `serve` would, check what a server relies on, end it. Status 1 if anything is broken."""
    settings = settings_from({"KERNEL_ENV_POOL": pool, "KERNEL_ENV_EVALUATOR": evaluator})
    from kernel_env.server.config import SettingsError
    from kernel_env.server.conformance import conform
    from kernel_env.server.pools import pool_for

    async def held() -> list[Result]:
        results = []
        async for result in conform(pool_for(settings)):
            results.append(result)
            if not as_json:
                out.print(_line(result))
        return results

    try:
        with progress("Holding the pool to its contract"):
            results = asyncio.run(held())
    except SettingsError as error:
        fail(error, 2)
    if as_json:
        out.print(json.dumps([dataclasses.asdict(result) for result in results]), markup=False)
    if any(result.state == "broken" for result in results):
        raise typer.Exit(1)


def _line(result: Result) -> Text:
    return Text.assemble((f"{result.state:8}", _STYLES[result.state]), result.check, (f"  {result.why}", "dim"))
