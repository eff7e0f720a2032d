"""Evaluations by the real pool of this machine's devices: one case in, one flat result out.

Settings come from the environment as the server's do (`KERNEL_ENV_*`, `KERNELBENCH_DIR`); `--evaluator` goes
before. With `mock` nothing runs and times are made up: it shows what a command prints.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernel_env.server.config import Settings, SettingsError
from kernel_env.server.local import device_kind, visible_gpus
from kernel_env.server.outcome import Device, EvaluationRequest
from kernel_env.server.pool import Pool
from kernel_env.server.pools import pool_for

from .cases import Case, cases
from .machine import machine, show

READY_S = 300.0
BUDGET_S = 600.0
PACKAGES = ("openenv", "pydantic", "torch", "triton")


class DeviceError(RuntimeError):
    """There is no device to measure on."""


@dataclass(frozen=True)
class Result:
    """One evaluation; `roofline` is the share of the speed of light, None where something is not known."""

    case: str
    language: str
    verdict: str
    message: str = ""
    runtime_ms: float | None = None
    ref_runtime_ms: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int | None = None
    clock: str | None = None
    launch_bound: bool | None = None
    host_ms: float | None = None
    roofline: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Bench:
    """A pool that is ready, and its first device."""

    pool: Pool
    device: Device
    machine: dict[str, str]

    async def evaluate(self, case: Case) -> Result:
        """Never raises for what a submission or a device does: the verdict says it."""
        request = EvaluationRequest(
            id=os.urandom(8).hex(), task=case.task, language=case.language, code=case.code, budget_s=BUDGET_S
        )
        begun = time.monotonic()
        outcome = (await self.pool.evaluate(request)).outcome
        seconds = time.monotonic() - begun
        if outcome.kind != "passed":
            return Result(case.name, case.language, outcome.kind, outcome.message, seconds=seconds)
        if outcome.timing is None:
            return Result(case.name, case.language, outcome.kind, outcome.note, seconds=seconds)
        timing, light = outcome.timing, outcome.roofline
        return Result(
            case=case.name,
            language=case.language,
            verdict=outcome.kind,
            runtime_ms=timing.runtime_ms,
            ref_runtime_ms=timing.ref_runtime_ms,
            speedup=timing.speedup,
            low=timing.low,
            high=timing.high,
            samples=timing.samples,
            clock=timing.clock,
            launch_bound=timing.launch_bound,
            host_ms=timing.host_ms,
            roofline=light.t_min_ms / timing.runtime_ms if light else None,
            seconds=seconds,
        )

    def write(self, path: Path | None, **parts: Any) -> None:
        """Everything measured so far, with what it was measured on."""
        if path is not None:
            report = {"machine": self.machine, "device": self.device.model_dump(), **parts}
            path.write_text(json.dumps(report, indent=2) + "\n")


@asynccontextmanager
async def bench(settings: Settings, single: bool = False) -> AsyncIterator[Bench]:
    """Starts the workers and ends them; `single` is for the first device alone. Raises `DeviceError`."""
    if single and device_kind(settings) == "cuda":
        settings = replace(settings, gpus=(settings.gpus or visible_gpus())[:1])
    pool = pool_for(settings)
    await pool.start()
    try:
        device = await pool.ready(READY_S)
        if device is None:
            raise DeviceError(f"no device can evaluate: {pool.health()['message']}")
        versions = ", ".join(f"{name} {value}" for name, value in device.versions.items())
        facts = {**machine(PACKAGES), "device": f"{device.name}; {versions}"}
        show(facts)
        yield Bench(pool, device, facts)
    finally:
        await pool.close()


def pick(device: Device, settings: Settings, given: argparse.Namespace) -> list[Case]:
    """The cases that the options ask for; ends the program where there are none."""
    if settings.kernelbench_dir is None and device.kind != "cpu":
        progress("KERNELBENCH_DIR is not set: only kernels with tasks of their own")
    chosen = cases(device, settings.kernelbench_dir, given.kernels)
    if not chosen:
        sys.exit(f"no kernel's name holds {' or '.join(given.kernels)}")
    return chosen


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def told(result: Result) -> str:
    """A result in short."""
    if result.speedup is None:
        return f"{result.case}: {result.verdict}, {result.seconds:.1f} s. {result.message[:300]}"
    return f"{result.case}: {result.runtime_ms:.4g} ms, {result.speedup:.3f}x, {result.seconds:.1f} s"


def options(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options that all commands share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--evaluator", choices=("auto", "gpu", "cpu", "mock"), help="[KERNEL_ENV_EVALUATOR]")
    parser.add_argument("--kernels", type=words, default=[], metavar="TEXTS", help="comma list of parts of names")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin nothing after so long; default: no end")
    parser.add_argument("--json", type=_new, metavar="PATH", help="write all results to PATH, as they come")
    return parser


def _new(text: str) -> Path:
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no such folder")
    return Path(text)


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def natural(text: str) -> int:
    """A whole number from 1 to 1000."""
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number from 1 to 1000")
    return int(text)


def settings_of(given: argparse.Namespace) -> Settings:
    environ = dict(os.environ)
    if given.evaluator is not None:
        environ["KERNEL_ENV_EVALUATOR"] = given.evaluator
    try:
        return Settings.from_env(environ)
    except SettingsError as error:
        sys.exit(str(error))


class Limit:
    """Is there time to begin something? `seconds` None: always."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() > self._end


def as_rows(results: list[Result]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]
