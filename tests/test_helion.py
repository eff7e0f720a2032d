"""Helion: what is told from the text, and what runs, traced for real, under the guard and in the sandbox.

The parts that run need the package; on the CPU Triton's interpreter executes what Helion has written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Literal

import pytest
import pytest_asyncio

from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Outcome, Rejected

from .kernels import kernels
from .pools import evaluated, started

LIMIT = 1 << 18
needs_helion = pytest.mark.skipif(find_spec("helion") is None, reason="helion is not installed")
in_module = pytest.mark.asyncio(loop_scope="module")

_TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, {parameters}):
        return {expression}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def task(parameters: str, expression: str, inputs: str) -> str:
    return _TASK.format(parameters=parameters, expression=expression, inputs=inputs)


RELU = task("x", "torch.relu(x)", "torch.randn(7, 1501)")
SMALL = {
    "level1/19_ReLU": RELU,
    "level1/23_Softmax": task("x", "torch.softmax(x, dim=1)", "torch.randn(3, 9001)"),
    "level1/1_Square_matrix_multiplication_": task(
        "A, B", "A @ B", "torch.randn(150, 150), torch.randn(150, 150)"
    ),
}
LARGE = {
    "level1/19_ReLU": task("x", "torch.relu(x)", "torch.randn(4096, 16384)"),
    "level1/23_Softmax": task("x", "torch.softmax(x, dim=1)", "torch.randn(4096, 32768)"),
    "level1/1_Square_matrix_multiplication_": task(
        "A, B", "A @ B", "torch.randn(4096, 4096), torch.randn(4096, 4096)"
    ),
}
HONEST = {kernel.task_id: kernel.code for kernel in kernels("helion")}

HEAD = """
import helion
import helion.language as hl
import torch
import torch.nn as nn

"""
KERNEL = """
@helion.kernel(config=helion.Config(block_sizes=[4096]))
def relu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        y[tile] = torch.relu(x[tile])
    return y

"""
COPY = KERNEL.replace("torch.relu(x[tile])", "x[tile]").replace("def relu", "def copy")
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x.view(-1)).view(x.shape)
"""
RIGHT = HEAD + KERNEL + MODEL


def changed(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


IMPORT = "import helion\n"
GIVEN = "(config=helion.Config(block_sizes=[4096]))"
REFUSED = {
    "no configuration": (changed(GIVEN, ""), "kernel-config", "autotune_effort"),
    "called without one": (changed(GIVEN, "()"), "kernel-config", "helion.Config"),
    "tuned quickly": (changed(GIVEN, "(autotune_effort='quick')"), "kernel-config", "`relu` would be tuned"),
    "one of several": (
        changed(GIVEN, "(configs=[helion.Config(block_sizes=[n]) for n in (64, 128)])"),
        "kernel-config",
        "tuned",
    ),
    "run as PyTorch": (changed("4096]))", "4096]), ref_mode=1)"), "kernel-config", "`ref_mode`"),
    "no kernel": (HEAD + MODEL.replace("relu(x.view(-1)).view(x.shape)", "x"), "kernel-missing", "@helion.kernel"),
    "not called": (HEAD + KERNEL + MODEL.replace("relu(x.view(-1)).view(x.shape)", "x"), "kernel-unused", "relu"),
    "no loop": (
        changed("    for tile in hl.tile(x.size(0)):\n        y[tile] = torch.relu(x[tile])\n", ""),
        "kernel-missing",
        "hl.tile",
    ),
    "computes before its loop": (changed("torch.empty_like(x)\n", "torch.relu(x)\n"), "torch-compute", "outside"),
    "plain PyTorch": (changed("relu(x.view(-1))", "relu(torch.relu(x).view(-1))"), "torch-compute", "torch.relu"),
    "the tuner": (changed(IMPORT, f"{IMPORT}import helion.autotuner\n"), "import", "helion.autotuner"),
    "its cache": (changed(IMPORT, f"{IMPORT}from helion.autotuner import x\n"), "import", "helion.autotuner"),
    "the compiler": (changed("return y\n", "return helion._compiler.host(y)\n"), "import", "helion._compiler"),
}


@pytest.mark.parametrize(("code", "rule", "told"), REFUSED.values(), ids=REFUSED)
def test_what_the_text_shows(code: str, rule: str, told: str) -> None:
    found = check(code, "helion", LIMIT)
    assert isinstance(found, Rejected)
    assert found.rule == rule
    assert told in found.message


@pytest.mark.parametrize(
    "code",
    [
        RIGHT,
        changed(GIVEN, "(autotune_effort='none')"),
        changed(GIVEN, "(configs=[helion.Config(block_sizes=[64])])"),
        changed("@helion.kernel", "@helion.jit"),
        changed("    y = torch.empty_like(x)\n", "    for _ in range(1):\n        y = torch.empty_like(x)\n"),
        *HONEST.values(),
    ],
)
def test_honest_text_passes(code: str) -> None:
    assert check(code, "helion", LIMIT) is None


def test_it_may_be_imported_in_no_other_language() -> None:
    found = check(RIGHT, "triton", LIMIT)
    assert isinstance(found, Rejected)
    assert (found.rule, "helion" in found.message) == ("import", True)


OWN_OPERATOR = """
KEPT = []


@torch.library.custom_op("mine::stolen", mutates_args=())
def stolen(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@stolen.register_fake
def shape_of(x):
    if KEPT:
        KEPT.append(torch.relu(KEPT[0]))
    return torch.empty_like(x)

"""
IMPOSTORS = {
    "forward in PyTorch": HEAD + KERNEL + MODEL.replace("relu(x.view(-1)).view(x.shape)", "torch.relu(x)"),
    "around the loop": changed("torch.empty_like(x)\n", "torch.relu(x)\n").replace(
        "torch.relu(x[tile])", "y[tile]"
    ),
    "while it is traced": HEAD
    + "KEPT = []\n\n\ndef stolen(x):\n    KEPT.append(torch.relu(KEPT[0]))\n    return torch.empty_like(x)\n"
    + COPY.replace("torch.empty_like(x)", "stolen(x)")
    + MODEL.replace("return relu(x.view(-1)).view(x.shape)", "KEPT[:] = [x]; copy(x.view(-1)); return KEPT[-1]"),
    "dispatch switched off while it is traced": HEAD
    + "KEPT = []\n\n\ndef stolen(x):\n    with torch.utils._mode_utils.no_dispatch():\n"
    + "        KEPT.append(torch.relu(KEPT[0]))\n    return torch.empty_like(x)\n"
    + COPY.replace("torch.empty_like(x)", "stolen(x)")
    + MODEL.replace("return relu(x.view(-1)).view(x.shape)", "KEPT[:] = [x]; copy(x.view(-1)); return KEPT[-1]"),
    "in an operator's shape function": HEAD
    + OWN_OPERATOR
    + COPY.replace("torch.empty_like(x)", "torch.ops.mine.stolen(x)")
    + MODEL.replace("return relu(x.view(-1)).view(x.shape)", "KEPT[:] = [x]; copy(x.view(-1)); return KEPT[-1]"),
    "dispatch switched off": HEAD
    + KERNEL
    + MODEL.replace(
        "return relu(x.view(-1)).view(x.shape)",
        "relu(x.view(-1))\n        with torch._C._DisableTorchDispatch():\n            return torch.relu(x)",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="cpu", trials=2, atol=1e-4, rtol=1e-3)) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpu_pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", profile=True)) as pool:
        yield pool


async def judged(
    pool: LocalPool, code: str, source: str = RELU, mode: Literal["submission", "unchecked"] = "submission"
) -> Outcome:
    return (await evaluated(pool, code, task=source, language="helion", mode=mode)).outcome


@needs_helion
@in_module
@pytest.mark.parametrize("name", SMALL)
async def test_honest_kernels_are_right_in_the_interpreter(pool: LocalPool, name: str) -> None:
    outcome = await judged(pool, HONEST[name], SMALL[name])
    assert outcome.kind == "passed", outcome


@needs_helion
@in_module
@pytest.mark.parametrize("code", IMPOSTORS.values(), ids=IMPOSTORS)
async def test_impostors_are_caught_without_the_static_checks(pool: LocalPool, code: str) -> None:
    outcome = await judged(pool, code, mode="unchecked")
    assert isinstance(outcome, Rejected), outcome
    assert outcome.rule == "guard"


@needs_helion
@in_module
async def test_what_helion_refuses_is_a_failed_build(pool: LocalPool) -> None:
    outcome = await judged(pool, changed("torch.relu(x[tile])", "torch.linalg.qr(x[tile])"))
    assert outcome.kind == "build_failed", outcome


@needs_helion
@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
@in_module
@pytest.mark.parametrize("name", LARGE)
async def test_honest_kernels_are_right_and_timed_on_a_gpu(gpu_pool: LocalPool, name: str) -> None:
    outcome = await judged(gpu_pool, HONEST[name], LARGE[name])
    assert outcome.kind == "passed", outcome
    assert outcome.timing is not None
    assert outcome.profile is not None
    assert {kernel.origin for kernel in outcome.profile.kernels} == {"triton"}


@needs_helion
@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
@in_module
@pytest.mark.parametrize("code", IMPOSTORS.values(), ids=IMPOSTORS)
async def test_impostors_are_caught_on_a_gpu(gpu_pool: LocalPool, code: str) -> None:
    outcome = await judged(gpu_pool, code, LARGE["level1/19_ReLU"], "unchecked")
    assert outcome.kind == "rejected", outcome
