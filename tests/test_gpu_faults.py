"""The faults on a CUDA device: its memory and contexts are given back as well."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server.local import LocalPool, visible_gpus

from .faults import Fault, faults
from .faults.trial import bench, possible, tried

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
]

CRASH_S = 10.0
KILL_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with bench("gpu") as pool:
        yield pool


@pytest.mark.parametrize("fault", faults("cuda"), ids=str)
async def test_a_fault_ends_as_its_file_says(pool: LocalPool, fault: Fault) -> None:
    if not possible(fault):
        pytest.skip(f"needs {fault.needs}")
    finding = await tried(pool, fault)
    assert not finding.problems, finding
    assert finding.recovered_s < (KILL_S if fault.victim else CRASH_S)
