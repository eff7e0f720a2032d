"""Does a server grow? Thousands of episodes, and what it holds between them: `python -m benchmarks.soak`.

README.md explains the columns. A real server gets submissions as training sends them (see `mix`); after each round
all sessions are closed and its processes are looked at. The status is 1 if it holds more after the last round than
after the second, when everything is warm: processes, descriptors, or memory beyond `SLACK`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import pynvml

from kernel_env import KernelEnv
from kernel_env.errors import KernelEnvError

from .evaluations import PACKAGES, natural
from .machine import machine, show
from .mix import Submission, mixed
from .subject import Subject, started, stat, tree
from .tables import NONE, table
from .throughput import READY_S, ROOT, Client, Load, settings, sources

SLACK = 0.05
SLACK_BYTES = 32 << 20
WARM_ROUNDS = 2


@dataclass(frozen=True)
class Held:
    """What a server holds without sessions, after `episodes`. Memory is resident, of all its processes."""

    episodes: int
    seconds: float
    processes: int
    descriptors: int
    memory_bytes: int
    device_bytes: int | None

    def beyond(self, warm: Held) -> list[str]:
        """What has grown since `warm`."""
        grown = [name for name in ("processes", "descriptors") if getattr(self, name) > getattr(warm, name)]
        for name in ("memory_bytes", "device_bytes"):
            now, then = getattr(self, name), getattr(warm, name)
            if now is not None and now > (1 + SLACK) * then + SLACK_BYTES:
                grown.append(name.removesuffix("_bytes"))
        return grown


def held(subject: Subject, episodes: int, seconds: float) -> Held:
    processes = [pid for pid in tree(subject.pid) if int(stat(pid)[21])]
    return Held(
        episodes, seconds, len(processes), sum(map(_descriptors, processes)), subject.rss_bytes(), _device_bytes()
    )


def _descriptors(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _device_bytes() -> int | None:
    """Of the first device, by whomever; None without one."""
    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)
    except pynvml.NVMLError:
        return None


async def measure(subject: Subject, given: argparse.Namespace) -> list[Held]:
    submissions = await _submissions(subject, given)
    client, begun, found = Client(f"http://127.0.0.1:{subject.port}"), time.monotonic(), list[Held]()
    until = begun + given.seconds
    each = max(given.episodes // given.rounds, 1)
    while len(found) < given.rounds and time.monotonic() < until:
        load = Load("soak", given.sessions)
        await client.play(load, islice(submissions, each), until)
        await asyncio.sleep(given.settle)
        episodes = len(load.steps) + (found[-1].episodes if found else 0)
        found.append(held(subject, episodes, time.monotonic() - begun))
        print(f"  {episodes} episodes, {found[-1].memory_bytes >> 20} MiB", file=sys.stderr, flush=True)
    return found


async def _submissions(subject: Subject, given: argparse.Namespace) -> Iterator[Submission]:
    async with KernelEnv(base_url=f"http://127.0.0.1:{subject.port}", message_timeout_s=READY_S) as env:
        device = (await env.reset()).observation.metadata["device"]
    honest = sources("cuda" if device["kind"] == "cuda" else "mock", [])
    if given.cheap:
        honest = [one for one in honest if one.language != "cuda"]
    return mixed(honest, random.Random(given.seed))


def _row(one: Held) -> list[str]:
    device = NONE if one.device_bytes is None else f"{one.device_bytes / 2**20:.0f}"
    counts = str(one.episodes), f"{one.seconds:.0f}", str(one.processes), str(one.descriptors)
    return [*counts, f"{one.memory_bytes / 2**20:.0f}", device]


def report(found: list[Held]) -> str:
    header = ["episodes", "s", "processes", "descriptors", "memory MiB", "device MiB"]
    return table(header, [_row(one) for one in found])


def grown(found: list[Held]) -> list[str]:
    """Between the first warm round and the last."""
    return found[-1].beyond(found[WARM_ROUNDS - 1]) if len(found) > WARM_ROUNDS else []


def main() -> None:
    given = _arguments()
    show(machine(PACKAGES))
    try:
        with started("kernel_env.server.app", settings(given.sessions, given.evaluator), ROOT) as subject:
            found = asyncio.run(measure(subject, given))
    except (KernelEnvError, ConnectionError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"\n{report(found)}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found]) + "\n")
    if len(found) <= WARM_ROUNDS:
        sys.exit(f"soak: {len(found)} rounds are too few to say anything; give it more time")
    if grown(found):
        sys.exit(f"soak: grown since round {WARM_ROUNDS}: {', '.join(grown(found))}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--evaluator", choices=("auto", "gpu", "cpu", "mock"), help="[KERNEL_ENV_EVALUATOR]")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=natural, default=10)
    parser.add_argument("--sessions", type=natural, default=64)
    parser.add_argument("--seconds", type=float, default=480.0, help="after which no episode is begun")
    parser.add_argument("--settle", type=float, default=3.0, help="seconds after a round, before it looks")
    parser.add_argument("--cheap", action="store_true", help="no CUDA, whose builds take longest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every round to PATH")
    return parser.parse_args()


if __name__ == "__main__":
    main()
