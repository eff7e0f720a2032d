"""Turns at a device: one has it, one stands by, and nobody makes ready while something is timed."""

from __future__ import annotations

import asyncio

import pytest

from kernel_env.server.budget import Budget
from kernel_env.server.lease import Lease

pytestmark = pytest.mark.asyncio


async def hold(
    lease: Lease, log: list[str], name: str, go: asyncio.Event, timing: bool = False, budget_s: float = 5.0
) -> None:
    async with lease.turn(Budget(budget_s, 0.0)) as turn:
        async with turn.making():
            log.append(f"{name} ready")
        await turn.take()
        await turn.take()
        log.append(f"{name} runs")
        if timing:
            await turn.quiet(5.0)
        await go.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_stands_by_and_the_others_wait() -> None:
    lease, log, go = Lease(), list[str](), [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(lease, log, name, event)) for name, event in zip("abc", go, strict=True)]
    await settle()
    assert log == ["a ready", "a runs", "b ready"]
    go[0].set()
    await settle()
    assert log[3:] == ["b runs", "c ready"]
    go[1].set()
    go[2].set()
    await asyncio.gather(*tasks)
    assert log[5:] == ["c runs"]


async def test_the_device_is_taken_when_processes_are_made() -> None:
    lease = Lease()
    async with lease.turn(Budget(5.0, 0.0)) as turn, turn.making():
        taking = asyncio.create_task(turn.take())
        await settle()
        assert not turn.taken
        assert not lease.device.locked()
        turn.ready()
        await taking
        assert turn.taken


async def test_nobody_makes_ready_during_timing() -> None:
    lease, log, go = Lease(), list[str](), asyncio.Event()
    first = asyncio.create_task(hold(lease, log, "a", go, timing=True))
    await settle()
    second = asyncio.create_task(hold(lease, log, "b", go))
    await settle()
    assert log == ["a ready", "a runs"]
    go.set()
    await asyncio.gather(first, second)
    assert log[2:] == ["b ready", "b runs"]


@pytest.mark.parametrize("how", ["made", "ended", "too slow"])
async def test_timing_begins_when_what_is_being_made_is_ready(how: str) -> None:
    lease, log, made = Lease(), list[str](), asyncio.Event()

    async def stand_by() -> None:
        async with lease.turn(Budget(5.0, 0.0)) as turn, turn.making():
            await made.wait()
            if how == "ended":
                raise LookupError
            turn.ready()
            await turn.take()
            log.append("next runs")

    async with (
        lease.turn(Budget(5.0, 0.0)) as turn,
        turn.making(),
    ):  # its own is no question once it has the device
        await turn.take()
        standing = asyncio.create_task(stand_by())
        await settle()
        timing = asyncio.create_task(turn.quiet(0.05 if how == "too slow" else 5.0))
        await settle()
        assert not timing.done()
        if how != "too slow":
            made.set()
        await timing
        log.append("timed")
    made.set()
    await asyncio.gather(standing, return_exceptions=True)
    assert log == ["timed", "next runs"][: 1 if how == "ended" else 2]


@pytest.mark.parametrize("spent", ["standing by", "in line", "making ready"])
async def test_who_runs_out_of_time_leaves_the_line(spent: str) -> None:
    lease, log, go = Lease(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(hold(lease, log, "a", go, timing=spent == "making ready"))]
    await settle()
    if spent == "in line":
        tasks.append(asyncio.create_task(hold(lease, log, "b", go)))
        await settle()
    with pytest.raises(TimeoutError):
        await hold(lease, log, "late", go, budget_s=0.05)
    assert ("late ready" in log) == (spent == "standing by")
    assert "late runs" not in log
    go.set()
    tasks.append(asyncio.create_task(hold(lease, log, "z", go)))
    await asyncio.wait_for(asyncio.gather(*tasks), 5.0)
    assert log[-1] == "z runs"


async def test_a_cancelled_turn_is_over() -> None:
    lease, log, go = Lease(), list[str](), asyncio.Event()
    for timing in (False, True):
        task = asyncio.create_task(hold(lease, log, "a", go, timing))
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    go.set()
    await asyncio.wait_for(hold(lease, log, "b", go), 5.0)
    assert log[-1] == "b runs"
