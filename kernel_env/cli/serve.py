"""`kernel-env serve`: the server in the foreground, its settings from the environment and these options."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import settings_from


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [KERNEL_ENV_HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one [KERNEL_ENV_PORT].")] = None,
    evaluator: Annotated[str | None, typer.Option(help="auto, gpu, cpu or mock [KERNEL_ENV_EVALUATOR].")] = None,
    gpus: Annotated[str | None, typer.Option(help="Device indices, as in 0,1 [KERNEL_ENV_GPUS].")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="embedded, kernelbench, huggingface or paths, by commas [KERNEL_ENV_TASKS]."),
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option(help="Episodes at one time [KERNEL_ENV_MAX_SESSIONS].")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Submissions an episode [KERNEL_ENV_MAX_TURNS].")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, fp16 or bf16 [KERNEL_ENV_PRECISION].")] = None,
    reward: Annotated[str | None, typer.Option(help="speedup or roofline [KERNEL_ENV_REWARD].")] = None,
    eval_log: Annotated[
        str | None, typer.Option(help="File that gets a JSON line a step [KERNEL_ENV_EVAL_LOG].")
    ] = None,
) -> None:
    """Serve the environment until interrupted. Every setting is also an environment variable; see the README."""
    settings = settings_from(
        {
            "KERNEL_ENV_HOST": host,
            "KERNEL_ENV_PORT": port,
            "KERNEL_ENV_EVALUATOR": evaluator,
            "KERNEL_ENV_GPUS": gpus,
            "KERNEL_ENV_TASKS": tasks,
            "KERNEL_ENV_MAX_SESSIONS": max_sessions,
            "KERNEL_ENV_MAX_TURNS": max_turns,
            "KERNEL_ENV_PRECISION": precision,
            "KERNEL_ENV_REWARD": reward,
            "KERNEL_ENV_EVAL_LOG": eval_log,
        }
    )
    from kernel_env.server.app import serve as run_server

    run_server(settings)
