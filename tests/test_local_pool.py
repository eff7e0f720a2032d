"""The local pool when things go wrong: cancelled steps, killed processes, spent budgets; nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server import seat
from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool

from .pools import evaluated, started
from .processes import alive, find, until_running
from .submissions import RIGHT, TASK, in_forward, vary

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

ENDLESS = in_forward("import time; time.sleep(1000)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="cpu", trials=2, correctness_timeout_s=60.0)) as pool:
        yield pool
    assert not find("kernel_env.server")


async def test_cancelling_ends_the_candidate_and_frees_the_device(pool: LocalPool) -> None:
    (zygote,) = find("server.zygote", leaf=False)
    step = asyncio.create_task(evaluated(pool, ENDLESS))
    candidate = await until_running(zygote)
    queued = asyncio.create_task(evaluated(pool, RIGHT))
    cancelled = time.monotonic()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    while alive(candidate):
        assert time.monotonic() - cancelled < 5.0
        await asyncio.sleep(0.02)
    assert (await queued).outcome.kind == "passed"
    assert pool.health()["running"] == 0


@pytest.mark.parametrize(
    ("code", "stage"),
    [(ENDLESS, "correctness"), (vary("@triton.jit", "while True:\n    pass\n\n\n@triton.jit"), "compile")],
    ids=["forward", "import"],
)
async def test_a_budget_spent_by_the_submission_is_its_fault(pool: LocalPool, code: str, stage: str) -> None:
    begun = time.monotonic()
    outcome = (await evaluated(pool, code, budget_s=4.0)).outcome
    assert (outcome.kind, outcome.stage) == ("timed_out", stage), outcome
    assert "the step's 4 s" in outcome.message
    assert time.monotonic() - begun < 15.0


async def test_a_budget_spent_by_the_judge_is_our_fault(pool: LocalPool) -> None:
    (judging,) = find("server.judge")
    os.kill(judging, signal.SIGSTOP)
    step = asyncio.create_task(evaluated(pool, RIGHT, budget_s=2.0))
    await asyncio.sleep(7.5)
    os.kill(judging, signal.SIGCONT)
    assert (await step).outcome.kind == "infrastructure"
    assert find("server.judge") == [judging]


async def test_a_slow_task_is_no_fault_of_the_submission(pool: LocalPool) -> None:
    slow = TASK.replace("def get_inputs():", "def get_inputs():\n    import time; time.sleep(1.2)")
    assert (await evaluated(pool, RIGHT, task=slow, budget_s=4.0)).outcome.kind in ("passed", "infrastructure")


async def test_a_worker_that_does_not_come_up_is_waited_for_within_the_budget() -> None:
    begun = time.monotonic()
    evaluation = await evaluated(LocalPool(Settings(evaluator="cpu")), RIGHT, budget_s=0.3)
    assert evaluation.outcome.kind == "infrastructure"
    assert time.monotonic() - begun < 10.0


@pytest.mark.parametrize("after_s", [0.0, 0.5, 2.0])
async def test_a_pool_that_closes_while_it_comes_up_leaves_nothing(
    after_s: float, capfd: pytest.CaptureFixture[str]
) -> None:
    others = set(find("kernel_env.server"))
    pool = LocalPool(Settings(evaluator="cpu"))
    await pool.start()
    await asyncio.sleep(after_s)
    begun = time.monotonic()
    await pool.close()
    assert time.monotonic() - begun < 5.0
    assert set(find("kernel_env.server")) <= others
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("victim", "budget_s"), [("server.zygote", 120.0), pytest.param("server.worker", 1.0, marks=pytest.mark.long)]
)
async def test_a_stopped_process_is_replaced(
    pool: LocalPool, monkeypatch: pytest.MonkeyPatch, victim: str, budget_s: float
) -> None:
    monkeypatch.setattr(seat, "STUCK_S", 8.0)
    for pid in find(victim, leaf=False):
        os.kill(pid, signal.SIGSTOP)
    outcome = (await evaluated(pool, RIGHT, budget_s=budget_s)).outcome
    assert outcome.kind in ("passed", "infrastructure")
    assert (await evaluated(pool, RIGHT)).outcome.kind == "passed"


async def test_closing_answers_everyone(pool: LocalPool) -> None:
    """The last test here: the module's pool is closed."""
    (zygote,) = find("server.zygote", leaf=False)
    running = asyncio.create_task(evaluated(pool, ENDLESS))
    await until_running(zygote)
    queued = asyncio.create_task(evaluated(pool, RIGHT))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close())
    for step in (running, queued, asyncio.create_task(evaluated(pool, RIGHT))):
        outcome = (await asyncio.wait_for(step, 10.0)).outcome
        assert outcome.kind == "infrastructure"
        assert "the pool is closed" in outcome.message
    await closing
    assert (await evaluated(pool, RIGHT)).outcome.kind == "infrastructure"
    assert await pool.ready(60.0) is None
    assert pool.health()["state"] == "failed"
