"""Verdicts on a CUDA device: Triton and CUDA submissions, faults of the device kind, times that make sense."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import ON_THE_DEVICE, Outcome

from .pools import evaluated, started
from .processes import find, folder_of
from .submissions import FOLDER, RIGHT, TASK, in_forward, returning, vary

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.asyncio(loop_scope="module"),
]

RELU = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""
RELU_CUDA = (FOLDER / "relu_cuda.py").read_text()
LARGE = TASK.replace("32, 64", "4096, 4096")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", correctness_timeout_s=15.0, timing_budget_s=1.0)) as pool:
        yield pool
    assert not find("kernel_env.server")


async def judge(pool: LocalPool, code: str, task: str = LARGE, language: str = "triton") -> Outcome:
    return (await evaluated(pool, code, task=task, language=language)).outcome


async def test_triton_is_timed_by_events(pool: LocalPool) -> None:
    outcome = await judge(pool, RIGHT)
    assert outcome.kind == "passed", outcome
    timing = outcome.timing
    assert timing is not None
    assert timing.clock == "events"
    assert 0.5 < timing.low <= timing.speedup <= timing.high < 4.0
    assert outcome.roofline is not None
    assert 0.2 < outcome.roofline.t_min_ms / timing.runtime_ms < 1.1


async def test_cuda_is_built_outside_the_lease(pool: LocalPool) -> None:
    outcome = await judge(pool, RELU_CUDA, RELU, "cuda")
    assert outcome.kind == "passed", outcome
    assert outcome.timing is not None


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (vary("/ tl.sum(value, axis=0)", "/ (1.05 * tl.sum(value, axis=0))"), "wrong_output", "off"),
        (returning("y.cpu().to(x.device)"), "rejected", "host"),
        (in_forward("x[0, 0].item()"), "rejected", "_local_scalar_dense"),
        (returning("y.cpu()"), "rejected", "host"),
        (vary("tl.exp(value -", "tl.no_such_function(value -"), "build_failed", "no_such_function"),
        (returning("torch.empty_like(y)"), "wrong_output", "off"),
        (vary("y + row * stride", "y + (1 << 44) + row * stride"), "raised", ""),
    ],
)
async def test_each_fault_then_a_right_one(pool: LocalPool, code: str, kind: str, text: str) -> None:
    outcome = await judge(pool, code)
    assert outcome.kind == kind, outcome
    assert text in getattr(outcome, "message", "")
    assert (await judge(pool, RIGHT)).kind == "passed"


async def test_a_kernel_that_does_not_compile_needs_no_device(pool: LocalPool) -> None:
    evaluation = await evaluated(pool, vary("tl.exp(value -", "tl.no_such_function(value -"), task=LARGE)
    assert evaluation.outcome.kind == "build_failed", evaluation
    assert not set(evaluation.durations) & set(ON_THE_DEVICE)


async def test_an_endless_kernel_costs_its_deadline(pool: LocalPool) -> None:
    loop = "    n = n + 0\n    while tl.load(x) < 1.0e30:\n        tl.store(y, tl.load(y) + 1.0)\n"
    outcome = await judge(pool, vary("    row = tl.program_id(0)\n", loop + "    row = tl.program_id(0)\n"))
    assert outcome.kind == "timed_out", outcome
    assert (await judge(pool, RIGHT)).kind == "passed"


async def test_a_slow_kernel_is_slow(pool: LocalPool) -> None:
    launch = "softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))"
    thrice = vary("        return y\n", f"        for _ in range(2):\n            {launch}\n        return y\n")
    once, three = await judge(pool, RIGHT), await judge(pool, thrice)
    assert once.kind == three.kind == "passed"
    assert once.timing
    assert three.timing
    assert 0.25 < three.timing.speedup / once.timing.speedup < 0.5


async def test_a_side_stream_is_counted(pool: LocalPool) -> None:
    hidden = vary(
        "        softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))\n",
        "        with torch.cuda.stream(self.side):\n"
        "            for _ in range(40):\n"
        "                softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))\n",
    ).replace(
        "    def forward",
        "    side = torch.cuda.Stream() if torch.cuda.is_available() else None\n\n    def forward",
    )
    outcome = await judge(pool, hidden)
    if outcome.kind == "passed":
        assert outcome.timing
        assert outcome.timing.speedup < 0.2, outcome
    else:
        assert outcome.kind == "wrong_output", outcome


async def test_memory_is_given_back(pool: LocalPool) -> None:
    for _ in range(3):
        await judge(pool, RIGHT, TASK.replace("32, 64", "65536, 8192"))
    (worker,) = find("server.worker")
    assert not list(folder_of(worker).glob("candidate-*"))
    assert (await judge(pool, RIGHT, TASK.replace("32, 64", "65536, 8192"))).kind == "passed"
