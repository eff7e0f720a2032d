"""Cancelling once, twice, at any moment: replies keep belonging to their requests, and nothing is left running.
Nor does who stands by hold up who has the device.

A worker in this process, with a real judge and a real zygote.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server import lease, stages
from kernel_env.server.config import Settings
from kernel_env.server.finish import finish
from kernel_env.server.forked import Forked, forked
from kernel_env.server.layers import Plan
from kernel_env.server.lease import Turn
from kernel_env.server.outcome import EvaluationRequest, TaskSource
from kernel_env.server.seat import Seat
from kernel_env.server.wake import Signal
from kernel_env.server.worker import Worker

from .processes import descendants, find, until_running
from .submissions import RIGHT, TASK, in_forward

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = Settings(evaluator="cpu", trials=1, correctness_timeout_s=60.0, timing_budget_s=0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    folder = str(tmp_path_factory.mktemp("worker"))
    worker = Worker({**Seat(SETTINGS, "cpu", "0", Signal())._config(), "folder": folder})
    await worker.start()
    yield worker
    await worker.close()


def request(code: str) -> EvaluationRequest:
    task = TaskSource(id="user/softmax", source=TASK, hash="0")
    return EvaluationRequest(id=os.urandom(8).hex(), task=task, language="triton", code=code, budget_s=100.0)


async def cancel_thrice(task: asyncio.Task[object]) -> None:
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("delay_ms", [0, 1, 3, 10, 30, 100])
async def test_a_fork_cancelled_twice_is_reaped(worker: Worker, tmp_path: Path, delay_ms: int) -> None:
    (tmp_path / "submission.py").write_text("class ModelNew: pass")
    spec = {
        "role": "build",
        "twin": False,
        "scratch": str(tmp_path),
        "source": str(tmp_path),
        "device": "cpu",
        "guarded": False,
        "environment": {},
        "plan": Plan().json(),
    }
    zygote = await worker.processes.zygote()
    (pid,) = find("server.zygote", leaf=False)

    async def hold() -> None:
        async with forked(zygote, spec):
            await asyncio.sleep(100.0)

    holding: list[asyncio.Task[object]] = [asyncio.create_task(hold()) for _ in range(3)]
    await asyncio.sleep(delay_ms / 1000)
    await asyncio.gather(*(cancel_thrice(task) for task in holding))
    assert not descendants(pid)
    async with forked(zygote, spec) as child:
        assert descendants(pid) == [child.pid]
        assert "error" not in await child.reply(20.0)
    assert child.status is not None
    assert worker.processes._zygote is zygote
    assert zygote.alive


async def test_an_evaluation_cancelled_twice_leaves_the_judge_in_step(worker: Worker) -> None:
    (zygote,) = find("server.zygote", leaf=False)
    judging = find("server.judge")
    step: asyncio.Task[object] = asyncio.create_task(worker.evaluate(request(in_forward("while True: pass")), 0.0))
    await until_running(zygote)
    waiting = asyncio.create_task(worker.evaluate(request(RIGHT), 0.0))
    await cancel_thrice(step)
    assert (await waiting).outcome.kind == "passed"
    wrong = in_forward("raise ValueError")
    assert (await worker.evaluate(request(wrong), 0.0)).outcome.kind == "raised"
    assert find("server.judge") == judging


async def test_who_stands_by_holds_up_who_is_timed_for_a_while_at_most(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one's processes seem never to be made; neither suffers from that."""

    async def speaks(_: Forked) -> None:
        await asyncio.Event().wait()

    async def quiet(turn: Turn, limit_s: float) -> None:
        while worker._stages._lease.made.is_set() and not made.is_set():
            await asyncio.sleep(0.01)
        made.set()
        await at_most(turn, limit_s)

    at_most, made = Turn.quiet, asyncio.Event()
    monkeypatch.setattr(Turn, "quiet", quiet)
    monkeypatch.setattr(Forked, "speaks", speaks)
    monkeypatch.setattr(stages, "QUIET_S", 0.3)
    monkeypatch.setattr(lease, "READY_S", 0.3)
    task = TaskSource(id="user/softmax", source=TASK, hash="0")
    timed, following = (
        worker.evaluate(
            EvaluationRequest(
                id=name, task=task, language="cuda", code=task.as_submission, budget_s=100.0, mode="audit"
            ),
            0.0,
        )
        for name in ("timed", "next")
    )
    evaluations = await asyncio.gather(timed, following)
    assert [evaluation.outcome.kind for evaluation in evaluations] == ["passed", "passed"]
    assert 0.2 <= max(evaluation.durations["quiet"] for evaluation in evaluations) < 5.0
    assert 0.2 <= max(evaluation.durations["processes"] for evaluation in evaluations) < 5.0


async def test_a_candidate_that_could_not_be_set_up_is_our_fault(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = worker.processes._spec
    with monkeypatch.context() as patch:
        patch.setattr(worker.processes, "_spec", lambda *given: spec(*given) | {"scratch": "/no/such/folder"})
        outcome = (await worker.evaluate(request(RIGHT), 0.0)).outcome
    assert outcome.kind == "infrastructure", outcome
    assert "could not be set up" in outcome.message
    assert (await worker.evaluate(request(RIGHT), 0.0)).outcome.kind == "passed"


async def test_work_is_finished_before_a_cancellation_is_passed_on() -> None:
    steps = []

    async def work() -> None:
        for step in range(5):
            await asyncio.sleep(0.01)
            steps.append(step)

    task: asyncio.Task[object] = asyncio.create_task(finish(work()))
    await asyncio.sleep(0.02)
    await cancel_thrice(task)
    assert len(steps) == 5
