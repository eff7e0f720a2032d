"""Strict checks on a CUDA device: honest kernels of every kind pass at full size, wrong and inexact ones fail.

Needs KernelBench (`KERNELBENCH_DIR`). All honest kernels under strict checks, and what these cost, are a matter of
`benchmarks.honest_kernels` with `KERNEL_ENV_CHECKS=strict`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.mutation import RULES, rows
from kernel_env.server.outcome import Outcome
from kernel_env.server.tasks import TaskSet

from .kernels import Kernel, kernels
from .pools import evaluated, started
from .submissions import pointwise

KERNELBENCH = os.environ.get("KERNELBENCH_DIR", "")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.skipif(not KERNELBENCH, reason="KERNELBENCH_DIR is not set"),
    pytest.mark.asyncio(loop_scope="module"),
]

OF_EACH_KIND = (
    "level1/1_Square_matrix_multiplication_",
    "level1/4_Matrix_vector_multiplication_",
    "level1/14_Matmul_for_upper_triangular_matrices",
    "level1/23_Softmax",
    "level1/33_BatchNorm",
    "level1/40_LayerNorm",
    "level1/63_conv_standard_2D__square_input__square_kernel",
    "level1/89_cumsum",
    "level1/90_cumprod",
    "level1/94_MSELoss",
    "level1/95_CrossEntropyLoss",
    "level1/97_ScaledDotProductAttention",
    "level2/39_Gemm_Scale_BatchNorm",
    "level2/63_Gemm_ReLU_Divide",
    "level3/1_MLP",
    "level3/3_DeepNarrowMLP",
    "level3/43_MinGPTCausalAttention",
)
CHOSEN = [kernel for kernel in kernels() if kernel.task_id in OF_EACH_KIND]

RELU = {
    "tl.maximum(value, 0.0)": "passed",
    "value": "wrong_output",
    "1.009 * tl.maximum(value, 0.0)": "wrong_output",
    "tl.maximum(value, 0.0).to(tl.bfloat16).to(tl.float32)": "wrong_output",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", checks="strict", timing_budget_s=0.5)) as pool:
        yield pool


async def judge(pool: LocalPool, task_id: str, language: str, code: str) -> Outcome:
    source = Path(KERNELBENCH, f"{task_id}.py").read_text(encoding="utf-8")
    return (await evaluated(pool, code, task=source, task_id=task_id, language=language)).outcome


@pytest.mark.parametrize("kernel", CHOSEN, ids=str)
async def test_an_honest_kernel_passes(kernel: Kernel, pool: LocalPool) -> None:
    outcome = await judge(pool, kernel.task_id, kernel.language, kernel.code)
    assert outcome.kind == "passed", outcome


@pytest.mark.parametrize("expression", RELU)
async def test_a_relu_is_exact_and_for_all_numbers(expression: str, pool: LocalPool) -> None:
    code = pointwise(expression)
    outcome = await judge(pool, "level1/19_ReLU", "triton", code)
    assert outcome.kind == RELU[expression], outcome


async def test_mutants_are_refused() -> None:
    tasks = TaskSet.load(Settings(tasks=(KERNELBENCH,)))
    names = ("1/23_Softmax", "1/40_LayerNorm", "1/94_MSELoss", "2/9_Matmul_Subtract_Multiply_ReLU")
    chosen = [tasks.get(f"level{name}") for name in names]
    async for row in rows(chosen, "cuda", visible_gpus()[0]):
        assert (row.fault, row.note) == ("", "")
        accepted = {rule: [name for name, m in row.mutants.items() if m["accepted"].get(rule)] for rule in RULES}
        assert accepted["allclose"], row.task_id
        assert set(accepted["strict"]) <= {"fp16 arithmetic"}, row.mutants
