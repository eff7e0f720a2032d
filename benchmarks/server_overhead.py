"""The server's own cost of a step: `python -m benchmarks.server_overhead`. README.md explains the columns.

Starts each server in a process of its own, plays steps against it from this process, and prints one table for
each. Nothing is evaluated: what is measured is everything else. Every phase is bounded, the whole run by
about two minutes with the default options.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from .fleet import Fleet, ReplyError, Run, Script
from .machine import load, machine, show
from .subject import StartError, Subject, started

ROOT = Path(__file__).resolve().parents[1]
SUBMISSION = ROOT / "tests" / "honest" / "triton" / "conv2d.py"
TASK = "level2/e06_ResidualLayerNormGELU"
SESSIONS = (1, 16, 64, 256)
TURNS = 1000
SECONDS = 2.5
PERIOD_S = 1.0
WARM_S = 0.5
SETTLE_S = 1.0
PACKAGES = ("openenv", "fastapi", "uvicorn", "websockets", "pydantic")
SERVERS = {
    "mock": ("kernel_env.server.app", "kernel_env, mock evaluator: static checks run in the server"),
    "unchecked": ("benchmarks.unchecked_server", "kernel_env, checks left out: they run in workers"),
    "stock": (
        "benchmarks.stock_server",
        "openenv's own server, an environment that only repeats one observation",
    ),
}


@dataclass(frozen=True)
class Row:
    """One phase. CPU times are milliseconds a step; `load` is the machine's one-minute load average."""

    sessions: int
    loop: str
    steps: int
    steps_per_s: float
    p50_ms: float
    p99_ms: float
    server_ms: float
    client_ms: float
    reply_bytes: int
    load: float


@dataclass(frozen=True)
class Table:
    """One server. `idle_bytes`: memory that one connected session adds, which has been reset and is idle."""

    server: str
    start_s: float
    rss_bytes: int
    idle_bytes: float
    rows: list[Row]


def main() -> None:
    options = _options()
    begun = time.monotonic()
    submission = f"{SUBMISSION.relative_to(ROOT)}, {SUBMISSION.stat().st_size} bytes; task {TASK}"
    facts = {**machine(PACKAGES), "submission": submission}
    show(facts)
    tables = []
    try:
        for name in options.servers:
            tables.append(asyncio.run(_measure(name, options.sessions, options.seconds)))
    except (StartError, ReplyError, TimeoutError, ExceptionGroup) as error:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        sys.exit(f"server_overhead: {str(causes[0]) or type(causes[0]).__name__}")
    print(f"\n{time.monotonic() - begun:.0f} s in all; load average at the end {load()}")
    if options.json is not None:
        report = {"machine": facts, "servers": [asdict(table) for table in tables]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


async def _measure(name: str, counts: list[int], seconds: float) -> Table:
    module, title = SERVERS[name]
    most = max(counts)
    environ = {
        "KERNEL_ENV_EVALUATOR": "mock",
        "KERNEL_ENV_MAX_SESSIONS": str(max(300, most)),
        "KERNEL_ENV_MAX_TURNS": str(TURNS),
    }
    script = Script(TASK, SUBMISSION.read_text(), TURNS)
    with started(module, environ, ROOT) as subject:
        print(f"\n{title}\n{_HEADER}", flush=True)
        before, idle_bytes = await _idle_bytes(subject, script, most)
        rows = []
        for count in counts:
            async with Fleet.of(count, subject.url, script) as fleet:
                await fleet.closed(WARM_S)
                rows.append(await _row(subject, count, "closed", partial(fleet.closed, seconds)))
                if count == most:
                    paced = partial(fleet.paced, 2 * seconds, PERIOD_S)
                    rows.append(await _row(subject, count, "1 a s", paced))
        print(
            f"start {subject.start_s:.1f} s, {before / 2**20:.0f} MiB without sessions;"
            f" an idle session adds {idle_bytes / 2**10:.0f} KiB (mean of {most})",
            flush=True,
        )
        return Table(title, subject.start_s, before, idle_bytes, rows)


async def _idle_bytes(subject: Subject, script: Script, count: int) -> tuple[int, float]:
    """The server's memory without sessions, once warm, and what each of `count` idle ones adds."""
    async with Fleet.of(1, subject.url, script) as fleet:
        await fleet.closed(WARM_S)
    await asyncio.sleep(SETTLE_S)
    before = subject.rss_bytes()
    async with Fleet.of(count, subject.url, script):
        await asyncio.sleep(SETTLE_S)
        return before, (subject.rss_bytes() - before) / count


async def _row(subject: Subject, count: int, loop: str, play: Callable[[], Awaitable[Run]]) -> Row:
    cpu = subject.cpu_s()
    run = await play()
    cpu = subject.cpu_s() - cpu
    steps = len(run.latencies)
    row = Row(
        sessions=count,
        loop=loop,
        steps=steps,
        steps_per_s=steps / run.wall_s,
        p50_ms=run.percentile_ms(50),
        p99_ms=run.percentile_ms(99),
        server_ms=cpu * 1e3 / steps,
        client_ms=run.client_cpu_s * 1e3 / steps,
        reply_bytes=run.reply_bytes,
        load=os.getloadavg()[0],
    )
    print(_line(row), flush=True)
    return row


_HEADER = "sessions  loop      steps  steps/s   p50 ms   p99 ms  server ms/step  client ms/step  reply B   load"


def _line(row: Row) -> str:
    return (
        f"{row.sessions:8}  {row.loop:6} {row.steps:8} {row.steps_per_s:8.0f} {row.p50_ms:8.2f} {row.p99_ms:8.2f}"
        f" {row.server_ms:15.3f} {row.client_ms:15.3f} {row.reply_bytes:8} {row.load:6.2f}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_overhead", description=__doc__)
    parser.add_argument(
        "--sessions", type=_counts, default=list(SESSIONS), help="comma list, 1,16,64,256 by default"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        help="length of a closed loop, 2.5 by default; the paced one takes twice as long",
    )
    parser.add_argument(
        "--servers", type=_servers, default=list(SERVERS), help=f"comma list of {', '.join(SERVERS)}"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything that is printed to PATH")
    return parser.parse_args()


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    counts = sorted({int(part) for part in parts if part.isdecimal()})
    if not all(part.isdecimal() for part in parts) or not 1 <= counts[0] <= counts[-1] <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: use whole numbers from 1 to 10000, such as 1,64")
    return counts


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 600.0:
        raise argparse.ArgumentTypeError(f"{text!r}: use 0.5 to 600 seconds")
    return seconds


def _servers(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in SERVERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: use some of {', '.join(SERVERS)}")
    return names


if __name__ == "__main__":
    main()
