"""The honest kernels: each passes the static checks; the Triton ones are right at reduced sizes.

The second part needs KernelBench (`KERNELBENCH_DIR`, its `KernelBench/` folder) and runs the real evaluator on
the CPU: worker, judge, zygote and candidates, dispatch guard included, with Triton's interpreter.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import EvaluationRequest, TaskSource

from .kernels import Kernel, kernels
from .kernels.reduce import SMALL, reduced

LIMIT = 256 * 1024
FOLDER = os.environ.get("KERNELBENCH_DIR", "")

needs_kernelbench = pytest.mark.skipif(not FOLDER, reason="KERNELBENCH_DIR is not set")


@pytest.mark.parametrize("kernel", kernels(), ids=str)
def test_passes_the_static_checks(kernel: Kernel) -> None:
    compile(kernel.code, kernel.path.name, "exec")
    assert check(kernel.code, kernel.language, LIMIT) is None


def test_there_are_enough_over_three_levels() -> None:
    assert {kernel.task_id.split("/")[0] for kernel in kernels()} == {"level1", "level2", "level3"}
    assert len(kernels("triton")) >= 40
    assert len(kernels("cuda")) >= 12


def test_every_triton_kernel_has_a_reduced_size() -> None:
    assert {kernel.task_id for kernel in kernels("triton")} == set(SMALL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    pool = LocalPool(Settings(evaluator="cpu", trials=2, atol=1e-2, rtol=1e-3, correctness_timeout_s=110.0))
    await pool.start()
    assert await pool.ready(120.0) is not None, pool.health()
    yield pool
    await pool.close()


@needs_kernelbench
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kernel", kernels("triton"), ids=str)
async def test_is_right_at_a_reduced_size(kernel: Kernel, pool: LocalPool) -> None:
    source = Path(FOLDER, f"{kernel.task_id}.py").read_text(encoding="utf-8")
    request = EvaluationRequest(
        id=os.urandom(8).hex(),
        task=TaskSource(id=kernel.task_id, source=reduced(source, SMALL[kernel.task_id]), hash="0"),
        language="triton",
        code=kernel.code,
        budget_s=280.0,
    )
    outcome = (await pool.evaluate(request)).outcome
    assert outcome.kind == "passed", outcome
