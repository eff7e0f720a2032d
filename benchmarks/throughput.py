"""Evaluations a minute, through the real server and client: `python -m benchmarks.throughput`.

Three loads, one after another on one server: `idle`, one session that submits each honest kernel once; `right`,
all sessions at once with honest kernels alone; `mix`, all sessions at once with what training sends (see `mix`).
Prints rates, latencies, what became of the submissions, and a table of stages: where the time of an evaluation
goes, and how long the device was held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from openenv.core.env_client import EnvClient

from kernel_env import KernelAction, KernelEnv, KernelObservation
from kernel_env.errors import KernelEnvError
from kernel_env.server.outcome import ON_THE_DEVICE
from tests.kernels import kernels

from .evaluations import PACKAGES, natural, words
from .machine import machine, show
from .mix import Submission, mixed, right
from .subject import Subject, started
from .tables import digits, percent, table

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = {"refused": {"format"}, "not compiling": {"compile"}, "wrong": {"correctness"}, "right": {"passed"}}
READY_S = 300.0
STEP_S = 600.0


@dataclass(frozen=True)
class Step:
    """One submission's reply; `seconds` are the client's, `durations` the server's."""

    submission: Submission
    stage: str
    seconds: float
    durations: dict[str, float]
    reward: float | None
    feedback: str

    @property
    def expected(self) -> bool:
        return self.stage in EXPECTED[self.submission.kind]

    @property
    def held_s(self) -> float:
        """How long it had the device."""
        return sum(self.durations.get(name, 0.0) for name in ON_THE_DEVICE)


@dataclass
class Load:
    """All steps of one load, `seconds` from the first to the last reply."""

    name: str
    sessions: int
    steps: list[Step] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def a_minute(self) -> float:
        return 60 * len(self.steps) / self.seconds if self.seconds else 0.0


class Client:
    """Plays sessions against one server."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def play(self, load: Load, submissions: Iterator[Submission], until: float) -> None:
        """`load.sessions` at once, each with an episode a submission, until no more are to be begun."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(load.sessions):
                group.create_task(self._session(load, submissions, until))
        load.seconds = time.monotonic() - begun

    async def _session(self, load: Load, submissions: Iterator[Submission], until: float) -> None:
        async with KernelEnv(base_url=self._base_url, message_timeout_s=STEP_S) as env:
            while time.monotonic() < until:
                submission = next(submissions, None)
                if submission is None:
                    return
                await env.reset(task_id=submission.task_id, language=submission.language)
                load.steps.append(await _step(env, submission))


async def _step(env: EnvClient[KernelAction, KernelObservation, Any], submission: Submission) -> Step:
    begun = time.monotonic()
    result = await env.step(KernelAction(code=submission.code))
    seconds = time.monotonic() - begun
    seen = result.observation
    durations = seen.metadata.get("durations", {})
    return Step(submission, seen.stage, seconds, durations, result.reward, seen.feedback[:500])


def summary(loads: list[Load]) -> str:
    header = ["load", "sessions", "steps", "a minute", "p50 s", "p95 s", "held p50 s", "held %", "as expected"]
    rows = []
    for load in loads:
        seconds = [step.seconds for step in load.steps]
        held = [step.held_s for step in load.steps if step.held_s]
        rows.append(
            [
                load.name,
                str(load.sessions),
                str(len(load.steps)),
                f"{load.a_minute:.1f}",
                digits(quantile(seconds, 0.5), 3),
                digits(quantile(seconds, 0.95), 3),
                digits(quantile(held, 0.5), 3),
                percent(sum(held) / load.seconds if load.seconds else None),
                f"{sum(step.expected for step in load.steps)}",
            ]
        )
    return table(header, rows)


def stages(load: Load) -> str:
    """Seconds by kind of submission and stage, median and 95th percentile, of those that got there."""
    names = list(dict.fromkeys(name for step in load.steps for name in step.durations))
    rows = []
    for kind, count in Counter(step.submission.kind for step in load.steps).most_common():
        steps = [step for step in load.steps if step.submission.kind == kind]
        cells = [[step.durations[name] for step in steps if name in step.durations] for name in names]
        held = [step.held_s for step in steps if step.held_s]
        rows.append([kind, str(count), *(_spread(cell) for cell in [*cells, held])])
    return table([load.name, "steps", *names, "device held"], rows)


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{quantile(values, 0.5):.2f} / {quantile(values, 0.95):.2f}"


def quantile(values: list[float], share: float) -> float | None:
    """Nearest rank."""
    return sorted(values)[round(share * (len(values) - 1))] if values else None


def sources(device: str, names: list[str]) -> list[Submission]:
    """Honest kernels for the server's tasks: on a GPU those of `tests/kernels`, otherwise the demo's."""
    if device == "cuda":
        every = [Submission(kernel.task_id, kernel.language, "right", kernel.code) for kernel in kernels()]
        return [
            one for one in every if not names or any(name in f"{one.language} {one.task_id}" for name in names)
        ]
    language = "cpp" if device == "cpu" else "triton"
    code = resources.files("kernel_env").joinpath("demos", f"right_{language}.py").read_text()
    return [Submission("level2/e02_PolynomialActivation", language, "right", code)]


def odd(loads: list[Load], count: int = 8) -> str:
    """Some replies that were not what the submission was made for."""
    found = [(load.name, step) for load in loads for step in load.steps if not step.expected]
    return "\n".join(
        f"  {name}: {step.submission.kind} {step.submission.language} {step.submission.task_id}"
        f" was {step.stage}: {' '.join(step.feedback.split())[:160]}"
        for name, step in found[:count]
    )


async def measure(subject: Subject, given: argparse.Namespace) -> list[Load]:
    base_url = f"http://127.0.0.1:{subject.port}"
    async with KernelEnv(base_url=base_url, message_timeout_s=READY_S) as env:
        device = (await env.reset()).observation.metadata["device"]
    honest = sources(device["kind"] if given.evaluator != "mock" else "mock", given.kernels)
    print(f"device     {device['name']}; {len(honest)} honest kernels", flush=True)
    rng, client, loads = random.Random(given.seed), Client(base_url), []
    for name in given.loads:
        load = Load(name, 1 if name == "idle" else given.sessions)
        submissions = {"idle": lambda: iter(list(_once(honest, rng))), "right": lambda: right(honest, rng)}.get(
            name, lambda: mixed(honest, rng)
        )()
        await client.play(load, submissions, time.monotonic() + given.seconds)
        loads.append(load)
        _write(given.json, loads, device)
        print(f"\n{stages(load)}", flush=True)
    return loads


def _once(honest: list[Submission], rng: random.Random) -> Iterator[Submission]:
    endless = right(honest, rng)
    return (next(endless) for _ in honest)


def _write(path: Path | None, loads: list[Load], device: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps({"device": device, "loads": [asdict(load) for load in loads]}) + "\n")


def settings(sessions: int, evaluator: str | None) -> dict[str, str]:
    """Ours, as the server under measurement is to have them, with places for `sessions`."""
    environ = {name: value for name, value in os.environ.items() if name.startswith("KERNEL")}
    environ |= {"KERNEL_ENV_HOST": "127.0.0.1", "KERNEL_ENV_MAX_SESSIONS": str(sessions + 8)}
    return environ | ({"KERNEL_ENV_EVALUATOR": evaluator} if evaluator else {})


def main() -> None:
    given = _arguments()
    show(machine(PACKAGES))
    try:
        with started("kernel_env.server.app", settings(given.sessions, given.evaluator), ROOT) as subject:
            loads = asyncio.run(measure(subject, given))
    except (KernelEnvError, ConnectionError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"\n{summary(loads)}")
    unexpected = odd(loads)
    if unexpected:
        print(f"\nnot as expected:\n{unexpected}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--evaluator", choices=("auto", "gpu", "cpu", "mock"), help="[KERNEL_ENV_EVALUATOR]")
    parser.add_argument(
        "--loads", type=words, default=["idle", "right", "mix"], help="comma list of idle, right, mix"
    )
    parser.add_argument("--sessions", type=natural, default=64)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each load, after which none is begun")
    parser.add_argument("--kernels", type=words, default=[], metavar="TEXTS", help="comma list of parts of names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all steps to PATH, as loads end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
