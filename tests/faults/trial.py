"""One fault before the real evaluator: how it ends, how long until the next submission is judged, what is left.

The pool is of this process. The submission after a fault is a right one, and the time to its verdict is the
recovery; where a process of ours is killed, it is the time from the kill to the verdict on the disturbed one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Outcome

from ..pools import evaluated, started
from ..processes import alive, find, folder_of
from . import RIGHT, TASK, Fault
from .remains import Remains

BUDGET_S = 240.0
HELD_S = 60.0
SETTLED_S = 5.0
POLL_S = 0.02
LIMIT_S = 5.0
"""For each stage: a fault that hangs takes as long."""


@dataclass
class Finding:
    """`took_s` until the outcome, `recovered_s` until the next verdict; `left` is what is left behind."""

    fault: Fault
    outcome: Outcome
    after: Outcome
    took_s: float
    recovered_s: float
    left: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The outcome in a line."""
        outcome = self.outcome
        text = getattr(outcome, "message", "").strip().replace("\n", " ")
        ended = getattr(outcome, "signal", None) or ""
        code = getattr(outcome, "exit_code", None)
        exited = "" if code is None else f"exit code {code}"
        return " ".join(part for part in (ended, exited, text) if part)

    @property
    def problems(self) -> list[str]:
        """What is not as the file says."""
        fault, outcome = self.fault, self.outcome
        problems = []
        if outcome.kind not in fault.kinds or (fault.stage and outcome.stage != fault.stage):
            wanted = f"{' or '.join(fault.kinds)} in {fault.stage or 'any stage'}"
            problems.append(f"{outcome.kind} in {outcome.stage}, not {wanted}")
        if fault.says not in self.told:
            problems.append(f"does not say {fault.says!r}: {self.told}")
        if self.after.kind != "passed":
            problems.append(f"the next submission: {self.after}")
        return problems + [f"left: {thing}" for thing in self.left]


@asynccontextmanager
async def bench(evaluator: str) -> AsyncIterator[LocalPool]:
    """A pool with short limits that has judged a submission. `evaluator` is `cpu` or `gpu`."""
    settings = Settings(
        evaluator=evaluator,  # type: ignore[arg-type]
        trials=1,
        build_timeout_s=LIMIT_S,
        correctness_timeout_s=LIMIT_S,
        timing_timeout_s=LIMIT_S,
        timing_budget_s=0.2,
    )
    async with started(settings) as pool:
        await judge(pool, RIGHT)
        await judge(pool, RIGHT, "cpp")
        yield pool


def possible(fault: Fault) -> bool:
    """Does this machine have the program that it needs?"""
    return not fault.needs or shutil.which(fault.needs) is not None


async def tried(pool: LocalPool, fault: Fault) -> Finding:
    before = Remains.look()
    begun = time.monotonic()
    noted: set[int] = set()
    step = asyncio.create_task(judge(pool, fault.code, fault.language))
    watching = asyncio.create_task(_watch(noted))
    killed = await _kill(fault.victim, step) if fault.victim else 0.0
    outcome = await step
    ended = time.monotonic()
    watching.cancel()
    after = await judge(pool, RIGHT)
    recovered_s = ended - killed if killed else time.monotonic() - ended
    return Finding(fault, outcome, after, ended - begun, recovered_s, await _left(before, noted))


async def judge(pool: LocalPool, code: str, language: str = "triton") -> Outcome:
    evaluation = await evaluated(pool, code, task=TASK, language=language, mode="unchecked", budget_s=BUDGET_S)
    return evaluation.outcome


def _scratch(name: str) -> Iterator[Path]:
    """Files of this name in the folders of submissions."""
    for worker in find("server.worker", leaf=False):  # a child of it may not have become what it will be
        with suppress(OSError, ValueError):
            yield from folder_of(worker).glob(f"candidate-*/{name}")


async def _watch(noted: set[int]) -> None:
    """Collect the processes that submissions tell of."""
    while True:
        for note in _scratch("noted"):
            with suppress(OSError):
                noted |= {int(pid) for pid in note.read_text().split()}
        await asyncio.sleep(POLL_S)


async def _kill(victim: str, step: asyncio.Task[Outcome]) -> float:
    """Kill once the submission holds, then let every one that holds go on; when it was killed."""
    deadline = time.monotonic() + HELD_S
    while not any(_scratch("held")):
        if step.done() or time.monotonic() > deadline:
            raise AssertionError(f"the submission never held: {step.result() if step.done() else 'it runs'}")
        await asyncio.sleep(POLL_S)
    while not (victims := find(f"server.{victim}", leaf=False)):
        await asyncio.sleep(POLL_S)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    while any(map(alive, victims)):
        await asyncio.sleep(POLL_S)
    while not step.done():
        for held in _scratch("held"):
            with suppress(OSError):
                held.with_name("over").touch()
        await asyncio.sleep(POLL_S)
    return killed


async def _left(before: Remains, noted: set[int]) -> list[str]:
    """Looked at until there is nothing, for a while."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        left = Remains.look().beyond(before)
        left += [f"process {pid}" for pid in sorted(noted) if alive(pid)]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.1)
