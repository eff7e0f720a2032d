"""Profiles on a CUDA device: the kernels of a call and nothing of the evaluator's, as they are launched."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Passed
from kernel_env.toolkit.counters import Counted, CountersError, Subject, count

from .pools import evaluated, started
from .test_cli import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")]
asynchronous = pytest.mark.asyncio(loop_scope="module")

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1) * 2.0


def get_inputs():
    return [torch.randn(8192, 4096)]


def get_init_inputs():
    return []
"""
CODE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_softmax(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + at, value / tl.sum(value, axis=0))


@triton.jit
def twice(y, z, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, 2.0 * tl.load(y + at))


class ModelNew(nn.Module):
    def forward(self, x):
        y, z = torch.empty_like(x), torch.zeros_like(x)
        row_softmax[(8192,)](x, y, N=4096, num_warps=8)
        for _ in range(2):
            twice[(8192,)](y, z, BLOCK=4096)
        return z
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", trials=2, timing_budget_s=0.5, profile=True)) as pool:
        yield pool


async def judge(pool: LocalPool, code: str) -> Passed:
    outcome = (await evaluated(pool, code, task=TASK)).outcome
    assert isinstance(outcome, Passed), outcome
    return outcome


@asynchronous
async def test_the_kernels_of_a_call(pool: LocalPool) -> None:
    outcome = await judge(pool, CODE)
    found, timing = outcome.profile, outcome.timing
    assert found is not None, outcome.note
    assert timing is not None
    kernels = {kernel.name: kernel for kernel in found.kernels}
    softmax, twice = kernels["row_softmax"], kernels["twice"]
    assert len(kernels) == 3, f"the two of its own and the fill: {list(kernels)}"
    assert (softmax.launches, twice.launches, found.launches) == (1.0, 2.0, 4.0)
    assert (softmax.grid, softmax.block) == ((8192, 1, 1), (256, 1, 1))
    assert softmax.registers is not None
    assert 8 <= softmax.registers <= 255
    assert softmax.shared_bytes is not None
    assert softmax.shared_bytes > 0, "a reduction over 8 warps goes through shared memory"
    assert softmax.occupancy is not None
    assert 0.1 < softmax.occupancy <= 1.0
    assert sum(kernel.share for kernel in found.kernels) == pytest.approx(1.0)
    assert 0.5 * timing.runtime_ms < found.busy_ms < 1.5 * timing.runtime_ms
    assert found.bytes == 2 * 8192 * 4096 * 4
    assert found.gb_s == pytest.approx(found.bytes / 1e6 / timing.runtime_ms)
    if found.bandwidth_share is not None:
        assert 0.05 < found.bandwidth_share < 1.0


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Twice.py").write_text(TASK)
    file = tmp_path / "kernel.py"
    file.write_text(CODE)
    where = ("--task", "level1/1_Twice", "--tasks", str(tmp_path), "--evaluator", "gpu")
    done = run("profile", str(file), *where, "--counters", "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {kernel["name"] for kernel in told["profile"]["kernels"]} >= {"row_softmax", "twice"}
    assert bool(told["counters"]) != bool(told["counters_note"])
    plain = run("profile", str(file), *where, timeout=300)
    assert plain.returncode == 0, plain.stderr
    assert "row_softmax" in plain.stdout
    assert "--counters" in plain.stdout


def test_counters_or_the_reason_why_there_are_none() -> None:
    subject = Subject("user/task", TASK, CODE, "fp32")
    if shutil.which("ncu") is None:
        with pytest.raises(CountersError, match="not on PATH"):
            count(subject)
        return
    try:
        counted = count(subject)
    except CountersError as error:
        pytest.skip(f"ncu is there, but: {error}")
    by_name = {one.name: one for one in counted}
    softmax = by_name["row_softmax"]
    assert isinstance(softmax, Counted)
    assert softmax.launches == 1
    assert 0.3 < softmax.shares["dram"] <= 1.0, "from cold caches, a stream of 268 MB"
    assert 0.6 < softmax.bytes / (2 * 8192 * 4096 * 4) < 1.3, "what is written may stay in the L2 cache"
