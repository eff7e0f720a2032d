"""Strict checks: impostors that pass the standard ones fail, honest neighbours pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import torch

from kernel_env.server import strict
from kernel_env.server.calibration import Calibrations
from kernel_env.server.config import Settings
from kernel_env.server.extras import ExtrasError, extras_of
from kernel_env.server.local import LocalPool
from kernel_env.server.problem import problem_text
from kernel_env.server.reference import Reference
from kernel_env.server.tasks import Task

from .pools import evaluated, started
from .submissions import RIGHT, TASK, pointwise, vary

asynchronous = pytest.mark.asyncio(loop_scope="module")

RELU = TASK.replace("torch.randn(32, 64) * 3", "torch.rand(32, 64)").replace(
    "torch.softmax(x, dim=1)", "torch.relu(x)"
)

NORM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(16, 64)]


def get_init_inputs():
    return [64]
"""

NORM_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm(x, affine, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at)
    off = value - tl.sum(value, axis=0) / n
    scaled = off / tl.sqrt(tl.sum(off * off, axis=0) / n + 1e-5)
    tl.store(y + row * n + at, scaled * tl.load(affine + at) + tl.load(affine + n + at))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.affine = torch.stack([self.norm.weight, self.norm.bias])  # packed once, from the weights as made

    def forward(self, x):
        y = torch.empty_like(x)
        layer_norm[(x.shape[0],)](x, self.affine, y, x.shape[1], BLOCK=64)
        return y
"""
HELD = vary(
    "self.norm = nn.LayerNorm(width)",
    "self.w = nn.Parameter(torch.ones(width)); self.b = nn.Parameter(torch.zeros(width))",
    NORM_KERNEL,
)
HELD = vary("[self.norm.weight, self.norm.bias]", "[self.w, self.b]", HELD)
IGNORED = vary(" * tl.load(affine + at) + tl.load(affine + n + at)", "", NORM_KERNEL)

PRODUCT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.rand(32, 128)]


def get_init_inputs():
    return [128, 64]
"""

PRODUCT_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear(x, w, b, y, K: tl.constexpr, N: tl.constexpr, M: tl.constexpr, STEP: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, STEP):
        inner = start + tl.arange(0, STEP)
        left = tl.load(x + rows[:, None] * K + inner[None, :])
        right = tl.load(w + columns[None, :] * K + inner[:, None])
        total += tl.dot(LEFT, RIGHT)
    total += tl.load(b + columns)[None, :]
    tl.store(y + rows[:, None] * N + columns[None, :], total)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        y = torch.empty(x.shape[0], 64, device=x.device)
        linear[(1,)](x, self.linear.weight, self.linear.bias, y, K=128, N=64, M=32, STEP=16)
        return y
"""


def product(left: str, right: str) -> str:
    return PRODUCT_KERNEL.replace("LEFT", left).replace("RIGHT", right)


def tf32(name: str) -> str:
    """As tensor cores read a 32-bit number."""
    return f"({name}.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)"


CASES = {
    "relu": (RELU, pointwise("tl.maximum(value, 0.0)"), ""),
    "a copy for relu": (RELU, pointwise("value"), "mean zero"),
    "relu x 1.009": (RELU, pointwise("tl.maximum(value, 0.0) * 1.009"), "factor"),
    "relu in bf16": (
        RELU,
        pointwise("tl.maximum(value.to(tl.bfloat16).to(tl.float32), 0.0)"),
        "not exact enough",
    ),
    "softmax": (TASK, RIGHT, ""),
    "norm, packed at construction": (NORM, NORM_KERNEL, ""),
    "norm with parameters of its own": (NORM, HELD, ""),
    "norm without its parameters": (NORM, IGNORED, "off"),
    "product": (PRODUCT, product("left", "right"), ""),
    "product in TF32": (PRODUCT, product(tf32("left"), tf32("right")), ""),
    "product in bf16": (
        PRODUCT,
        product("left.to(tl.bfloat16).to(tl.float32)", "right.to(tl.bfloat16).to(tl.float32)"),
        "not exact enough",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="cpu", trials=3, checks="strict")) as pool:
        yield pool


@asynchronous
@pytest.mark.parametrize("name", CASES)
async def test_impostors_fail_and_honest_kernels_pass(pool: LocalPool, name: str) -> None:
    source, code, text = CASES[name]
    outcome = (await evaluated(pool, code, task=source)).outcome
    assert outcome.kind == ("wrong_output" if text else "passed"), outcome
    assert text in getattr(outcome, "message", "")


def test_weights_that_leave_nothing_to_tell_are_drawn_anew() -> None:
    source = PRODUCT.replace("self.linear(x)", "self.linear(x) * self.open").replace(
        "super().__init__()", "super().__init__()\n        self.open = torch.initial_seed() % 2"
    )
    known = Calibrations()
    for seeds in ([2, 4, 3], [6, 5], [7]):
        waiting = iter(seeds)

        def draw(gain: float, waiting: Iterator[int] = waiting) -> Reference:
            return Reference("user/task", source, torch.device("cpu"), next(waiting), True, gain)

        reference, calibration = known.of("user/task", source, draw)
        assert (reference.seed, calibration.note, calibration.products) == (seeds[-1], "", True)


def problem(source: str, checks: str) -> str:
    settings = Settings.from_env({"KERNEL_ENV_CHECKS": checks})
    return problem_text(Task("user/task", 0, "x", source, "0", "here", "train", None), "triton", settings, None)


def test_the_problem_text_tells_the_families() -> None:
    text = problem(RELU, "strict")
    assert all(description in text for description in strict.FAMILIES.values())
    assert "Each of these draws fresh inputs" in text
    assert not any(description in problem(RELU, "standard") for description in strict.FAMILIES.values())


def test_a_task_may_limit_its_families() -> None:
    limited = f'{RELU}\nEXTRA_CHECKS = {{"families": ["sparse"]}}\n'
    text = problem(limited, "strict")
    assert strict.FAMILIES["sparse"] in text
    assert strict.FAMILIES["normal"] not in text
    with pytest.raises(ExtrasError, match="not one of"):
        extras_of("user/task", limited.replace("sparse", "spare"))
