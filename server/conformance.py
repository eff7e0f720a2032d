"""What every pool must do, as checks that anyone can hold a pool to: `kernel-env conformance`, or a test suite.

Each check drives a started pool through `pool.Pool` alone, with small submissions of its own, and raises
`Nonconformity` on the first thing that is wrong. One that a pool or device can't undergo raises `NotRun` with the
reason: nothing is passed in silence. `closed` ends the pool and comes last. Not checked: isolation, and whether
verdicts are right beyond the plain faults here; the exploit and fault corpora do that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from .layers import LAYERS
from .outcome import Device, Evaluation, EvaluationRequest, TaskSource
from .pool import Pool

READY_S = 240.0
CHECK_S = 300.0
BUDGET_S = 200.0
PROMPT_S = 5.0
"""What an answer may take beyond the budget, and a cancellation until its device is free."""
POLL_S = 0.05

_TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 64)]


def get_init_inputs():
    return []
"""
_SUBMISSION = """
import os
import time

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def clamp(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.maximum(value, {floor}), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        {statement}
        y = torch.empty_like(x)
        n = x.numel()
        clamp[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
        return y
"""


class Nonconformity(AssertionError):
    """The pool breaks its contract; the text says how."""


class NotRun(Exception):
    """The check does not apply to this pool or this device; the text says why."""


@dataclass(frozen=True)
class Subject:
    """A pool that is ready, and the device that it named.

    `break_worker` ends the process that evaluates, as a fault of the host would; None where nobody can.
    """

    pool: Pool
    device: Device
    break_worker: Callable[[], Awaitable[None]] | None = None

    @property
    def runs(self) -> bool:
        return self.device.kind != "mock"


@dataclass(frozen=True)
class Result:
    check: str
    state: Literal["held", "broken", "not run"]
    why: str = ""


def submission(statement: str = "pass", floor: str = "0.0") -> str:
    """A Triton kernel for the suite's task, after `statement` in `forward`; right where `floor` is 0."""
    return _SUBMISSION.format(statement=statement, floor=floor)


RIGHT = submission()
ENDLESS = submission("while True: pass")
FAULTS = {
    "passed": RIGHT,
    "wrong_output": submission(floor="0.5"),
    "raised": submission("raise RuntimeError('as it was meant to')"),
    "crashed": submission("os._exit(7)"),
}
"""One submission for each plain end, without the static checks, which would refuse some."""


def request(code: str, budget_s: float = BUDGET_S, checked: bool = False) -> EvaluationRequest:
    """Unlike every other, even for the same code."""
    digest = hashlib.sha256(_TASK.encode()).hexdigest()[:16]
    task = TaskSource(id="user/conformance", source=_TASK, hash=digest)
    mode: Literal["submission", "unchecked"] = "submission" if checked else "unchecked"
    return EvaluationRequest(
        id=uuid.uuid4().hex, task=task, language="triton", code=code, budget_s=budget_s, mode=mode
    )


async def conform(pool: Pool, break_worker: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[Result]:
    """Start the pool, hold it to every check in turn, close it. Yields results as they come."""
    await pool.start()
    try:
        device = await pool.ready(READY_S)
        if device is None:
            yield Result("ready", "broken", f"no device within {READY_S:g} s: {pool.health().get('message')}")
            return
        subject = Subject(pool, device, break_worker)
        for name in CHECKS:
            yield await undergo(subject, name)
    finally:
        await pool.close()


async def undergo(subject: Subject, name: str) -> Result:
    try:
        async with asyncio.timeout(CHECK_S):
            await CHECKS[name](subject)
    except NotRun as error:
        return Result(name, "not run", str(error))
    except Nonconformity as error:
        return Result(name, "broken", str(error))
    except TimeoutError:
        return Result(name, "broken", f"not done within {CHECK_S:g} s")
    return Result(name, "held")


async def health(subject: Subject) -> None:
    """What `Pool.health` names is there, of the right types, and can be written as JSON."""
    told = subject.pool.health()
    _require(told == json.loads(json.dumps(told)), f"health changes when written as JSON: {told}")
    _require(told.get("state") == "ready", f"a ready pool's state is {told.get('state')!r}")
    for name, kind in {"devices": list, "queued": int, "running": int, "message": str}.items():
        _require(isinstance(told.get(name), kind), f"health[{name!r}] is {told.get(name)!r}")
    ready = [device for device in told["devices"] if device.get("state") == "ready"]
    _require(bool(ready), "no device of a ready pool is ready")
    _require(all(device.get("name") for device in ready), "a ready device has no name")
    if subject.runs:
        layers = told.get("sandbox", {})
        _require(bool(layers) and set(layers) <= set(LAYERS), f"the sandbox's layers are {sorted(layers)}")
        states = {layer["state"] for layer in layers.values()}
        _require(states <= {"active", "unavailable", "off"}, f"layers are {sorted(states)}")


async def outcomes(subject: Subject) -> None:
    """Each plain fault of a submission is told as what it is, and none as a fault of ours."""
    _runs(subject)
    for kind, code in FAULTS.items():
        outcome = (await subject.pool.evaluate(request(code))).outcome
        _require(outcome.kind == kind, f"{kind} expected: {outcome}")


async def rejected(subject: Subject) -> None:
    """The static checks stand before everything else."""
    code = RIGHT.replace("clamp[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)", "y = torch.relu(x)")
    outcome = (await subject.pool.evaluate(request(code, checked=True))).outcome
    _require(outcome.kind == "rejected", f"a submission without a kernel: {outcome}")


async def one_answer_each(subject: Subject) -> None:
    """Submissions side by side get their own answers, once, with the facts that name them."""
    codes = [submission(f"pass  # {number}", floor) for number, floor in enumerate(("0.0", "0.5") * 2)]
    answers = await asyncio.gather(*(subject.pool.evaluate(request(code)) for code in codes))
    for code, answer in zip(codes, answers, strict=True):
        digest = hashlib.sha256(code.encode()).hexdigest()[:16]
        _require(answer.code_hash == digest, f"an answer to {answer.code_hash} instead of {digest}")
        wrong = subject.runs and "0.5" in code
        _require(answer.outcome.kind == ("wrong_output" if wrong else "passed"), f"for {code}: {answer.outcome}")
        _require(answer.device.kind == subject.device.kind, f"evaluated on {answer.device}")
        _require(Evaluation.model_validate_json(answer.model_dump_json()) == answer, "not what its JSON says")


async def stages(subject: Subject) -> None:
    """What a running evaluation is told to be at, it takes time for; of what does not run, nothing is told."""
    asked = request(submission("time.sleep(0.2)"))
    step = asyncio.create_task(subject.pool.evaluate(asked))
    seen = set()
    while not step.done():
        seen.add(await subject.pool.stage(asked.id))
        await asyncio.sleep(POLL_S)
    odd = seen - {""} - set((await step).durations)
    _require(not odd, f"told to be at {sorted(odd)}")
    for name in (asked.id, "nobody's"):
        told = await subject.pool.stage(name)
        _require(told == "", f"what does not run is told to be at {told!r}")


async def asked_again(subject: Subject) -> None:
    """A request that is made again, meanwhile or afterwards, gets the one evaluation."""
    asked = request(RIGHT)
    both = await asyncio.gather(subject.pool.evaluate(asked), subject.pool.evaluate(asked))
    later = await subject.pool.evaluate(asked)
    _require(both[0] == both[1] == later, "one request, several evaluations")


async def asked_again_by_one_who_left(subject: Subject) -> None:
    """Of two that wait for a request, one's leaving costs the other nothing."""
    asked = request(RIGHT)
    leaving = asyncio.create_task(subject.pool.evaluate(asked))
    staying = asyncio.create_task(subject.pool.evaluate(asked))
    await asyncio.sleep(POLL_S)
    leaving.cancel()
    outcome = (await staying).outcome
    _require(outcome.kind == "passed", f"after the other one had left: {outcome}")


async def spent_by_the_submission(subject: Subject) -> None:
    """A budget that the submission itself uses up is its fault, told soon after."""
    _runs(subject)
    answer, took_s = await _timed(subject.pool, request(ENDLESS, budget_s=4.0))
    _require(answer.outcome.kind == "timed_out", f"an endless submission: {answer.outcome}")
    _require(took_s < 4.0 + 2 * PROMPT_S, f"told after {took_s:.1f} s of a 4 s budget")


async def spent_by_waiting(subject: Subject) -> None:
    """A budget that goes by in the queue is our fault, not to be tried again, told soon after."""
    _runs(subject)
    async with _occupied(subject):
        answer, took_s = await _timed(subject.pool, request(RIGHT, budget_s=5.0))
    _require(answer.outcome.kind == "infrastructure", f"a budget spent on waiting: {answer.outcome}")
    _require(took_s < 5.0 + 2 * PROMPT_S, f"told after {took_s:.1f} s of a 5 s budget")


async def no_budget(subject: Subject) -> None:
    answer, took_s = await _timed(subject.pool, request(RIGHT, budget_s=0.0))
    _require(answer.outcome.kind == "infrastructure", f"a budget of nothing: {answer.outcome}")
    _require(took_s < PROMPT_S, f"told after {took_s:.1f} s")


async def cancelled(subject: Subject) -> None:
    """An evaluation that nobody waits for any more frees its device."""
    _runs(subject)
    async with _occupied(subject):
        pass
    left = time.monotonic()
    while subject.pool.health()["running"] or subject.pool.health()["queued"]:
        _require(time.monotonic() - left < PROMPT_S, f"still counted {PROMPT_S:g} s after its cancellation")
        await asyncio.sleep(POLL_S)
    answer, _ = await _timed(subject.pool, request(RIGHT, budget_s=60.0))
    _require(answer.outcome.kind == "passed", f"after a cancellation: {answer.outcome}")


async def lost_once(subject: Subject) -> None:
    """What is lost with its worker is tried once more, and the trainer sees nothing of it."""
    break_worker = _breaker(subject)
    step = asyncio.create_task(subject.pool.evaluate(request(RIGHT)))
    await _until_running(subject.pool)
    await break_worker()
    outcome = (await step).outcome
    _require(outcome.kind == "passed", f"after its worker was ended: {outcome}")


async def lost_always(subject: Subject) -> None:
    """What is lost both times is told as our fault, not to be tried a third time, and the pool recovers."""
    break_worker = _breaker(subject)
    step = asyncio.create_task(subject.pool.evaluate(request(ENDLESS)))
    while not step.done():
        if subject.pool.health()["running"]:
            await break_worker()
        await asyncio.wait({step}, timeout=10 * POLL_S)
    outcome = (await step).outcome
    _require(outcome.kind == "infrastructure", f"after both its workers were ended: {outcome}")
    _require(not getattr(outcome, "retryable", True), "lost twice, and to be tried again")
    outcome = (await subject.pool.evaluate(request(RIGHT))).outcome
    _require(outcome.kind == "passed", f"the next one after a loss: {outcome}")


async def closed(subject: Subject) -> None:
    """Whoever waits, now or later, is told at once; ending is idempotent."""
    code = ENDLESS if subject.runs else RIGHT
    steps = [asyncio.create_task(subject.pool.evaluate(request(code))) for _ in range(2)]
    if subject.runs:
        await _until_running(subject.pool)
    closing = asyncio.create_task(subject.pool.close())
    await asyncio.sleep(0)
    steps.append(asyncio.create_task(subject.pool.evaluate(request(code))))
    done, _ = await asyncio.wait(steps, timeout=PROMPT_S)
    _require(len(done) == len(steps), f"not answered {PROMPT_S:g} s after the pool was closed")
    kinds = {step.result().outcome.kind for step in (steps if subject.runs else steps[2:])}
    _require(kinds == {"infrastructure"}, f"told {sorted(kinds)} by a closed pool")
    await closing
    await subject.pool.close()
    _require(await subject.pool.ready(PROMPT_S) is None, "a closed pool is ready")
    _require(subject.pool.health()["state"] == "failed", f"a closed pool's health: {subject.pool.health()}")


CHECKS: dict[str, Callable[[Subject], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        health,
        outcomes,
        rejected,
        one_answer_each,
        stages,
        asked_again,
        asked_again_by_one_who_left,
        no_budget,
        spent_by_the_submission,
        spent_by_waiting,
        cancelled,
        lost_once,
        lost_always,
        closed,
    )
}


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Nonconformity(otherwise)


def _runs(subject: Subject) -> None:
    if not subject.runs:
        raise NotRun("the mock evaluator runs nothing")


def _breaker(subject: Subject) -> Callable[[], Awaitable[None]]:
    _runs(subject)
    if subject.break_worker is None:
        raise NotRun("nobody can end this pool's workers from here")
    return subject.break_worker


async def _timed(pool: Pool, asked: EvaluationRequest) -> tuple[Evaluation, float]:
    began = time.monotonic()
    return await pool.evaluate(asked), time.monotonic() - began


@asynccontextmanager
async def _occupied(subject: Subject) -> AsyncIterator[None]:
    """Every device that there is has an endless submission, which is cancelled in the end."""
    devices = max(1, len(subject.pool.health()["devices"]))
    steps = [asyncio.create_task(subject.pool.evaluate(request(ENDLESS))) for _ in range(devices)]
    try:
        await _until_running(subject.pool, devices)
        yield
    finally:
        for step in steps:
            step.cancel()
        ends: list[Any] = await asyncio.gather(*steps, return_exceptions=True)
    _require(all(isinstance(end, asyncio.CancelledError) for end in ends), f"cancelled, and yet: {ends}")


async def _until_running(pool: Pool, devices: int = 1) -> None:
    began = time.monotonic()
    while pool.health()["running"] < devices:
        _require(time.monotonic() - began < READY_S, f"{devices} submissions are not running: {pool.health()}")
        await asyncio.sleep(POLL_S)
