"""fp16 and bf16 on a CUDA device: tensor cores of that width, timed against a reference of that width."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
import pytest_asyncio

from kernel_env.server.config import Precision, Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Outcome, Passed, WrongOutput
from kernel_env.server.peaks import peak

from .pools import evaluated, started

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.asyncio(loop_scope="module"),
]

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(2048, 4096)]


def get_init_inputs():
    return [4096]
"""
CODE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(x, w, b, y, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(x + row[:, None] * K + inner[None, :])
        right = tl.load(w + column[None, :] * K + inner[:, None])
        total = tl.dot(left, right, total)
    total += tl.load(b + column)[None, :]
    tl.store(y + row[:, None] * N + column[None, :], tl.maximum(total, 0.0))


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        y = torch.empty(2048, 4096, dtype=x.dtype, device=x.device)
        w, b = self.linear.weight, self.linear.bias
        linear_relu[(16, 32)](x, w, b, y, N=4096, K=4096, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
        return y
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["fp16", "bf16"])
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[LocalPool]:
    precision = cast(Precision, request.param)
    settings = Settings(evaluator="gpu", trials=3, timing_budget_s=0.5, checks="strict", precision=precision)
    async with started(settings) as pool:
        yield pool


async def judge(pool: LocalPool, code: str) -> Outcome:
    return (await evaluated(pool, code, task=TASK)).outcome


async def test_an_honest_kernel_passes_under_the_roof_of_16_bits(pool: LocalPool) -> None:
    outcome = await judge(pool, CODE)
    assert isinstance(outcome, Passed), outcome
    assert outcome.timing is not None
    assert outcome.timing.speedup > 0.3
    device = await pool.ready(1.0)
    rates = peak(device.name) if device else None
    if rates is not None:
        assert outcome.roofline is not None
        least = 2 * 2048 * 4096 * 4096 / rates.half / 1e9
        assert outcome.roofline.t_min_ms == pytest.approx(least, rel=0.01)


async def test_an_output_of_32_bits_is_wrong(pool: LocalPool) -> None:
    outcome = await judge(pool, CODE.replace("dtype=x.dtype", "dtype=torch.float32"))
    assert isinstance(outcome, WrongOutput), outcome
    assert "has dtype float32" in outcome.message


async def test_operands_of_fewer_bits_are_not_exact_enough(pool: LocalPool) -> None:
    part = "total = tl.dot(left, right, total)"
    cut = "left = (left.to(tl.int16, bitcast=True) & -128).to(x.dtype.element_ty, bitcast=True)"
    code = CODE.replace(part, f"{cut}\n        {part}")
    assert code != CODE
    outcome = await judge(pool, code)
    assert isinstance(outcome, WrongOutput), outcome
