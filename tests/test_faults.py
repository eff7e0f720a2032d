"""What breaks, breaks alone: each fault has its outcome, the next submission is judged, nothing is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kernel_env.server.local import LocalPool

from .faults import Fault, faults
from .faults.trial import bench, possible, tried

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

CRASH_S = 10.0
KILL_S = 60.0
VICTIMS = ("judge", "worker", "zygote")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with bench("cpu") as pool:
        yield pool


def marked() -> list[Any]:
    """Of the stages in which each process of ours is killed, one each at first; all others are long."""
    seen: dict[str, int] = {}
    found = []
    for fault in faults():
        turn = seen.setdefault(fault.name, len(seen)) if fault.victim else 0
        usual = not fault.victim or fault.victim == VICTIMS[turn % len(VICTIMS)]
        found.append(pytest.param(fault, id=str(fault), marks=[] if usual else [pytest.mark.long]))
    return found


@pytest.mark.parametrize("fault", marked())
async def test_a_fault_ends_as_its_file_says(pool: LocalPool, fault: Fault) -> None:
    if not possible(fault):
        pytest.skip(f"needs {fault.needs}")
    finding = await tried(pool, fault)
    assert not finding.problems, finding
    assert finding.recovered_s < (KILL_S if fault.victim else CRASH_S)
