"""Whose fault it is that a step's time was not enough."""

from __future__ import annotations

import asyncio

import pytest

from kernel_env.server.budget import Budget
from kernel_env.server.outcome import TimedOut


@pytest.mark.parametrize(
    ("own_s", "seconds", "stage_s", "kind"),
    [
        (100.0, 100.0, 200.0, "timed_out"),
        (90.0, 60.0, 200.0, "timed_out"),
        (70.0, 70.0, 200.0, "infrastructure"),
        (0.0, 0.0, 200.0, "infrastructure"),
        (20.0, 20.0, 20.0, "timed_out"),
    ],
    ids=["all its own", "its own over two stages", "it waited too", "it had no time", "its stage's limit"],
)
def test_a_stage_that_is_late(own_s: float, seconds: float, stage_s: float, kind: str) -> None:
    outcome = Budget(100.0, 25.0).late(TimedOut(stage="correctness", seconds=seconds), stage_s, own_s)
    assert outcome.kind == kind
    if kind == "infrastructure":
        assert "25 s went into waiting" in outcome.message
        assert not getattr(outcome, "retryable", True)


async def test_a_turn_ends_with_the_time() -> None:
    lock, budget = asyncio.Lock(), Budget(0.1, 0.0)
    await lock.acquire()
    with pytest.raises(TimeoutError):
        async with budget.turn(lock):
            raise AssertionError("the lock was held by another")
    assert budget.left_s == 0.0
    assert budget.durations["queue"] >= 0.1
    assert budget.limit(5.0) == 0.0
    lock.release()
    async with Budget(5.0, 0.0).turn(lock):
        assert lock.locked()
    assert not lock.locked()
