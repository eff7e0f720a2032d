"""How the rate of evaluations grows with sessions, cores and GPUs: `python -m benchmarks.growth`.

README.md explains the columns. One of the three is varied at a time, each point on a server of its own: sessions
on all cores and one GPU, then cores and GPUs with `BASE` sessions. The load is that of `throughput`'s `mix`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernel_env import KernelEnv
from kernel_env.errors import KernelEnvError
from kernel_env.server.local import visible_gpus

from .evaluations import PACKAGES, natural, words
from .machine import machine, show
from .mix import mixed
from .subject import Subject, started
from .tables import digits, table
from .throughput import READY_S, ROOT, Client, Load, quantile, settings, sources

BASE = 64


@dataclass(frozen=True)
class Setting:
    """What a server and its clients have; `varied` names the one that this point is about."""

    varied: str
    sessions: int
    cores: int
    gpus: int


@dataclass(frozen=True)
class Point:
    setting: Setting
    steps: int
    a_minute: float
    p50_s: float | None
    p95_s: float | None


def points_of(sessions: Sequence[int], cores: Sequence[int], gpus: Sequence[int], all_cores: int) -> list[Setting]:
    """What this machine can show of what is asked for, each once."""
    most_gpus = max(len(visible_gpus()), 1)
    wanted = [Setting("sessions", count, all_cores, 1) for count in sessions]
    wanted += [Setting("cores", BASE, count, 1) for count in cores if count <= all_cores]
    wanted += [Setting("gpus", BASE, all_cores, count) for count in gpus if 1 < count <= most_gpus]
    return wanted


async def measure(subject: Subject, setting: Setting, given: argparse.Namespace) -> Point:
    base_url = f"http://127.0.0.1:{subject.port}"
    async with KernelEnv(base_url=base_url, message_timeout_s=READY_S) as env:
        kind = (await env.reset()).observation.metadata["device"]["kind"]
    honest = sources("mock" if given.evaluator == "mock" else kind, given.kernels)
    load, begun = Load("growth", setting.sessions), time.monotonic()
    submissions = mixed(honest, random.Random(given.seed))
    await Client(base_url).play(load, submissions, begun + given.seconds)
    seconds = [step.seconds for step in load.steps]
    return Point(setting, len(load.steps), load.a_minute, quantile(seconds, 0.5), quantile(seconds, 0.95))


def points(given: argparse.Namespace) -> Iterator[Point]:
    cores = sorted(os.sched_getaffinity(0))
    for setting in points_of(given.sessions, given.cores, given.gpus, len(cores)):
        environ = settings(setting.sessions, given.evaluator)
        environ |= {"KERNEL_ENV_GPUS": ",".join(visible_gpus()[: setting.gpus])} if visible_gpus() else {}
        with started("kernel_env.server.app", environ, ROOT, cores[: setting.cores]) as subject:
            yield asyncio.run(measure(subject, setting, given))


def report(found: Sequence[Point]) -> str:
    header = ["varied", "sessions", "cores", "GPUs", "steps", "a minute", "p50 s", "p95 s"]
    rows = [
        [
            point.setting.varied,
            str(point.setting.sessions),
            str(point.setting.cores),
            str(point.setting.gpus),
            str(point.steps),
            digits(point.a_minute),
            digits(point.p50_s, 3),
            digits(point.p95_s, 3),
        ]
        for point in found
    ]
    return table(header, rows)


def plot(found: Sequence[Point], path: Path) -> None:
    """One panel for each that was varied."""
    from matplotlib.figure import Figure

    varied = list(dict.fromkeys(point.setting.varied for point in found))
    figure = Figure(figsize=(4 * len(varied), 3), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(varied), squeeze=False)[0], varied, strict=True):
        mine = [point for point in found if point.setting.varied == name]
        counts = [getattr(point.setting, name) for point in mine]
        axes.plot(counts, [point.a_minute for point in mine], marker="o")
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.set_xlabel({"gpus": "GPUs"}.get(name, name))
        axes.set_ylim(bottom=0)
    figure.supylabel("evaluations a minute")
    figure.savefig(path, dpi=120)


def main() -> None:
    given = _arguments()
    show(machine(PACKAGES))
    found: list[Point] = []
    try:
        for point in points(given):
            found.append(point)
            print(f"  {point.setting}: {point.a_minute:.1f} a minute", file=sys.stderr, flush=True)
            if given.json:
                given.json.write_text(json.dumps([asdict(one) for one in found]) + "\n")
    except (KernelEnvError, ConnectionError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"\n{report(found)}")
    if given.plot:
        plot(found, given.plot)


def _naturals(text: str) -> list[int]:
    return [natural(word) for word in words(text)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--evaluator", choices=("auto", "gpu", "cpu", "mock"), help="[KERNEL_ENV_EVALUATOR]")
    parser.add_argument("--sessions", type=_naturals, default=[1, 4, 16, 64, 256])
    parser.add_argument("--cores", type=_naturals, default=[4, 8, 16])
    parser.add_argument("--gpus", type=_naturals, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=40.0, help="of each point, after which none is begun")
    parser.add_argument("--kernels", type=words, default=[], metavar="TEXTS", help="comma list of parts of names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all points to PATH, as they come")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="a picture of them, such as growth.png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
