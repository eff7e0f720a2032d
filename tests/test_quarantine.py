"""A device that loses what it is given: its worker is started anew, and a sick one is given up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server import seat
from kernel_env.server.config import Settings
from kernel_env.server.conformance import RIGHT, request, submission
from kernel_env.server.local import LocalPool

from .pools import started
from .processes import find

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="cpu", trials=2)) as pool:
        yield pool
    assert not find("kernel_env.server")


async def lose_one(pool: LocalPool) -> str:
    """Kill the judge under a submission until its worker goes as well; what became of the submission."""
    step = asyncio.create_task(pool.evaluate(request(submission("time.sleep(2)"))))
    (worker,) = find("server.worker", leaf=False)
    while worker in find("server.worker", leaf=False):
        for pid in find("server.judge", leaf=False):
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.5)
    return (await step).outcome.kind


async def test_a_worker_that_loses_submissions_is_started_anew(
    pool: LocalPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat, "FAULTS", 1)
    (worker,) = find("server.worker", leaf=False)
    assert await lose_one(pool) == "passed"
    (another,) = find("server.worker", leaf=False)
    assert another != worker
    assert (await pool.evaluate(request(RIGHT))).outcome.kind == "passed"


async def test_a_device_that_goes_on_losing_them_is_given_up(
    pool: LocalPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one with this pool."""
    monkeypatch.setattr(seat, "FAULTS", 1)
    monkeypatch.setattr(seat, "SPELLS", 1)
    assert await lose_one(pool) == "infrastructure"
    assert pool.health()["state"] == "failed"
    assert "given up" in pool.health()["message"]
    answer = await asyncio.wait_for(pool.evaluate(request(RIGHT)), 2.0)
    assert answer.outcome.kind == "infrastructure"
    assert "given up" in answer.outcome.model_dump()["message"]
