"""The honest kernels: each passes the static checks; Triton's are right at reduced sizes; on a GPU all pass.

All but the first part needs KernelBench (`KERNELBENCH_DIR`, its `KernelBench/` folder) and runs the real
evaluator: worker, judge, zygote and candidates, dispatch guard included. On the CPU that is Triton's interpreter.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Outcome

from .kernels import FOLDER, Kernel, kernels
from .kernels.reduce import SMALL, reduced
from .pools import evaluated, started

LIMIT = 256 * 1024
KERNELBENCH = os.environ.get("KERNELBENCH_DIR", "")

needs_kernelbench = pytest.mark.skipif(not KERNELBENCH, reason="KERNELBENCH_DIR is not set")


@pytest.mark.parametrize("kernel", kernels(), ids=str)
def test_passes_the_static_checks(kernel: Kernel) -> None:
    compile(kernel.code, kernel.path.name, "exec")
    assert check(kernel.code, kernel.language, LIMIT) is None


def test_there_are_enough_over_three_levels() -> None:
    for language, least in (("triton", 40), ("cuda", 12)):
        own = [kernel for kernel in kernels() if kernel.language == language]
        assert len(own) >= least
        assert {kernel.task_id.split("/")[0] for kernel in own} == {"level1", "level2", "level3"}


def test_every_triton_kernel_has_a_reduced_size() -> None:
    assert {kernel.task_id for kernel in kernels("triton")} == set(SMALL)


def test_the_readme_has_a_row_for_every_task() -> None:
    rows = re.findall(
        r"^\| `(.+?)` \| [\w ]+ \| (.*?) ?\| (.*?) ?\|$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M
    )
    for column, language in ((1, "triton"), (2, "cuda")):
        named = [row[0] for row in rows if row[column]]
        assert sorted(named) == sorted(k.task_id for k in kernels() if k.language == language)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    settings = Settings(evaluator="cpu", trials=2, atol=1e-5, rtol=1e-3, correctness_timeout_s=110.0)
    async with started(settings) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpu_pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu")) as pool:
        yield pool


def task_source(kernel: Kernel) -> str:
    return Path(KERNELBENCH, f"{kernel.task_id}.py").read_text(encoding="utf-8")


async def judge(pool: LocalPool, kernel: Kernel, task: str) -> Outcome:
    evaluation = await evaluated(pool, kernel.code, task=task, task_id=kernel.task_id, language=kernel.language)
    return evaluation.outcome


@needs_kernelbench
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kernel", kernels("triton"), ids=str)
async def test_is_right_at_a_reduced_size(kernel: Kernel, pool: LocalPool) -> None:
    outcome = await judge(pool, kernel, reduced(task_source(kernel), SMALL[kernel.task_id]))
    assert outcome.kind == "passed", outcome


@needs_kernelbench
@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kernel", kernels(), ids=str)
async def test_passes_at_full_size_on_a_gpu(kernel: Kernel, gpu_pool: LocalPool) -> None:
    outcome = await judge(gpu_pool, kernel, task_source(kernel))
    assert outcome.kind == "passed", outcome
    assert outcome.timing is not None
