"""Verdicts on a CUDA device that hang on how much a kernel computes: less than the reference, or not all of it.

An honest kernel that needs fewer operations than the reference is far quicker and not impossible. An impostor that
a task's own inputs would accept is wrong. All but the first part needs KernelBench (`KERNELBENCH_DIR`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Outcome, Timing

from .kernels import kernels
from .pools import evaluated, started
from .submissions import pointwise

KERNELBENCH = os.environ.get("KERNELBENCH_DIR", "")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.asyncio(loop_scope="module"),
]
needs_kernelbench = pytest.mark.skipif(not KERNELBENCH, reason="KERNELBENCH_DIR is not set")

DIAGONAL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B, D):
        return torch.diag(A) @ B + D


def get_inputs():
    return [torch.randn(4096), torch.randn(4096, 4096), torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""

SCALED_ROWS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(a, b, d, c, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    at = row * columns + column
    value = tl.load(a + row) * tl.load(b + at, mask=inside) + tl.load(d + at, mask=inside)
    tl.store(c + at, value, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B, D):
        C = torch.empty_like(B)
        rows, columns = B.shape
        scale_rows[(rows, triton.cdiv(columns, 2048))](A, B, D, C, columns, BLOCK=2048)
        return C
"""

OWN = {kernel.task_id: kernel.code for kernel in kernels("triton")}
HALVED = ("level1/14_Matmul_for_upper_triangular_matrices", "level1/15_Matmul_for_lower_triangular_matrices")
LEAKY = "level1/20_LeakyReLU"
HONEST = {
    "level1/19_ReLU": OWN["level1/19_ReLU"],
    LEAKY: pointwise("tl.where(value > 0.0, value, 0.01 * value)"),
    "level1/23_Softmax": OWN["level1/23_Softmax"],
    "level1/29_Softplus": OWN["level1/29_Softplus"],
    "level1/31_ELU": OWN["level1/31_ELU"],
    "level1/37_FrobeniusNorm_": OWN["level1/37_FrobeniusNorm_"],
    "level1/88_MinGPTNewGelu": OWN["level1/88_MinGPTNewGelu"],
}
# The constants keep the tasks' invariants: rows that sum to one, an output of norm one.
IMPOSTORS = {
    "copy for relu": ("level1/19_ReLU", "value", "signed numbers"),
    "copy for leaky relu": (LEAKY, "value", "signed numbers"),
    "copy for elu": ("level1/31_ELU", "value", "signed numbers"),
    "copy for softplus": ("level1/29_Softplus", "value", ""),
    "copy for gelu": ("level1/88_MinGPTNewGelu", "value", ""),
    "zeros for softmax": ("level1/23_Softmax", "value * 0.0", "off"),
    "a constant for softmax": ("level1/23_Softmax", "value * 0.0 + 1.0 / 393216", "off"),
    "zeros for frobenius": ("level1/37_FrobeniusNorm_", "value * 0.0", "off"),
    "a constant for frobenius": (
        "level1/37_FrobeniusNorm_",
        "value * 0.0 + 1.0 / tl.sqrt(n.to(tl.float32))",
        "off",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", trials=2, timing_budget_s=0.5)) as pool:
        yield pool


async def judge(pool: LocalPool, task_id: str, source: str, code: str) -> Outcome:
    return (await evaluated(pool, code, task=source, task_id=task_id)).outcome


async def timed(pool: LocalPool, task_id: str, source: str, code: str) -> Timing:
    outcome = await judge(pool, task_id, source, code)
    assert outcome.kind == "passed", outcome
    assert outcome.timing is not None
    return outcome.timing


def task_source(task_id: str) -> str:
    return Path(KERNELBENCH, f"{task_id}.py").read_text(encoding="utf-8")


async def test_no_product_where_rows_are_scaled(pool: LocalPool) -> None:
    timing = await timed(pool, "user/diagonal", DIAGONAL, SCALED_ROWS)
    assert timing.low > 5.0
    assert timing.clock == "events"


@needs_kernelbench
@pytest.mark.parametrize("task_id", HALVED)
async def test_half_of_a_product_of_triangles(pool: LocalPool, task_id: str) -> None:
    timing = await timed(pool, task_id, task_source(task_id), OWN[task_id])
    assert timing.low > 1.0
    assert timing.clock == "events"


@needs_kernelbench
@pytest.mark.parametrize("task_id", HONEST)
async def test_honest_kernels_pass_the_extra_checks(pool: LocalPool, task_id: str) -> None:
    await timed(pool, task_id, task_source(task_id), HONEST[task_id])


@needs_kernelbench
@pytest.mark.parametrize("name", IMPOSTORS)
async def test_impostors_fail_them(pool: LocalPool, name: str) -> None:
    task_id, expression, text = IMPOSTORS[name]
    outcome = await judge(pool, task_id, task_source(task_id), pointwise(expression))
    assert outcome.kind == "wrong_output", outcome
    assert text in outcome.message
