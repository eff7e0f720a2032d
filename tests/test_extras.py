"""Extra checks: impostors that a task's own inputs accept are wrong, honest kernels pass."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.extras import ExtrasError, extras_of
from kernel_env.server.local import LocalPool
from kernel_env.server.problem import problem_text
from kernel_env.server.task_syntax import fault_of
from kernel_env.server.tasks import Task

from .pools import evaluated, started
from .submissions import RIGHT, TASK, pointwise, vary

asynchronous = pytest.mark.asyncio(loop_scope="module")

POSITIVE = TASK.replace("torch.randn(32, 64) * 3", "torch.rand(32, 64)")
RELU_TASK = POSITIVE.replace("torch.softmax(x, dim=1)", "torch.relu(x)")
LONG_SOFTMAX = TASK.replace("torch.randn(32, 64) * 3", "torch.rand(4, 4096)")
FROBENIUS = LONG_SOFTMAX.replace("torch.softmax(x, dim=1)", "x / torch.norm(x, p='fro')")

FROBENIUS_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value / tl.sqrt(tl.sum(value * value, axis=0)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        norm[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return y
"""

DECLARED = (
    RELU_TASK
    + """
EXTRA_CHECKS = {
    "inputs": {"negative": "negative numbers"},
    "finite": True,
    "invariant": "nothing is negative",
}


def get_extra_inputs(name):
    assert name == "negative"
    return [-torch.rand(32, 64)]


def check_outputs(inputs, outputs):
    return "something is negative" if (outputs[0] < 0).any() else None
"""
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="cpu", trials=2)) as pool:
        yield pool


CASES = {
    "relu": ("level1/19_ReLU", RELU_TASK, pointwise("tl.maximum(value, 0.0)"), True, ""),
    "copy for relu": ("level1/19_ReLU", RELU_TASK, pointwise("value"), False, "signed numbers"),
    "copy for relu under another id": ("user/relu", RELU_TASK, pointwise("value"), True, ""),
    "softmax": ("level1/23_Softmax", LONG_SOFTMAX, RIGHT, True, ""),
    "zeros for softmax": ("level1/23_Softmax", LONG_SOFTMAX, pointwise("value * 0.0"), False, "off"),
    "a constant for softmax": ("level1/23_Softmax", LONG_SOFTMAX, pointwise("value * 0.0 + 1 / 4096"), False, ""),
    "softmax x 1.005": (
        "level1/23_Softmax",
        LONG_SOFTMAX,
        vary("value / tl.sum(value, axis=0)", "1.005 * value / tl.sum(value, axis=0)"),
        False,
        "a row's sum is off",
    ),
    "frobenius": ("level1/37_FrobeniusNorm_", FROBENIUS, FROBENIUS_KERNEL, True, ""),
    "zeros for frobenius": ("level1/37_FrobeniusNorm_", FROBENIUS, pointwise("value * 0.0"), False, "off"),
    "declared": ("user/relu", DECLARED, pointwise("tl.maximum(value, 0.0)"), True, ""),
    "copy against the declared": ("user/relu", DECLARED, pointwise("value"), False, "negative numbers"),
}


@asynchronous
@pytest.mark.parametrize("name", CASES)
async def test_impostors_fail_and_honest_kernels_pass(pool: LocalPool, name: str) -> None:
    task_id, source, code, passes, text = CASES[name]
    outcome = (await evaluated(pool, code, task=source, task_id=task_id)).outcome
    assert outcome.kind == ("passed" if passes else "wrong_output"), outcome
    assert text in getattr(outcome, "message", "")


def test_the_problem_text_discloses_them() -> None:
    def text(task_id: str, source: str) -> str:
        task = Task(task_id, 1, "x", source, "0", "here", "train", None)
        return problem_text(task, "triton", Settings(), None)

    assert "nothing beyond `get_inputs()` is tried" in text("user/relu", RELU_TASK)
    assert "signed numbers, uniform in [-32, 32]; zeros" in text("level1/19_ReLU", RELU_TASK)
    softmax = text("level1/23_Softmax", LONG_SOFTMAX)
    assert "every row is non-negative and sums to one" in softmax
    assert "at most 1e-05 of the largest expected magnitude" in softmax
    assert "negative numbers" in text("user/relu", DECLARED)


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ("{'input': {}}", "has input, and must be a dict with keys among: inputs,"),
        ("dict(inputs={})", "literal"),
        ("{'atol': -1.0}", "not allowed"),
        ("{'inputs': {'a': 'b'}}", "get_extra_inputs"),
        ("{'invariant': 'x'}", "check_outputs"),
    ],
)
def test_a_malformed_declaration_breaks_the_task(declaration: str, reason: str) -> None:
    source = f"{RELU_TASK}\nEXTRA_CHECKS = {declaration}\n"
    assert reason in (fault_of(source) or "")
    with pytest.raises(ExtrasError):
        extras_of("user/x", source)


def test_a_task_without_any_has_none() -> None:
    extras = extras_of("user/relu", RELU_TASK)
    assert not extras.inputs
    assert not extras.finite
    assert extras.relative_atol is None
