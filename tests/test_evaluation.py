"""Verdicts of the real evaluator on this machine's CPU: each submission gets its own stage and a useful text.

Real processes throughout: worker, judge, zygote and candidates, through `LocalPool`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool

from .pools import evaluated, started
from .submissions import RIGHT, RIGHT_CPP, TASK, in_forward, returning, vary

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = Settings(evaluator="cpu", trials=2, correctness_timeout_s=10.0, timing_budget_s=0.3)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(SETTINGS) as pool:
        yield pool


async def test_a_right_kernel_passes_untimed_in_the_interpreter(pool: LocalPool) -> None:
    evaluation = await evaluated(pool, RIGHT)
    assert evaluation.outcome.kind == "passed"
    assert evaluation.outcome.timing is None
    assert "interpreter" in evaluation.outcome.note
    assert evaluation.device.kind == "cpu"
    assert {"checks", "build", "queue", "candidate", "correctness"} <= set(evaluation.durations)
    assert len(evaluation.seeds_digest) == 16


@pytest.mark.parametrize(
    ("code", "kind", "stage", "text"),
    [
        (
            vary("/ tl.sum(value, axis=0)", "/ (1.05 * tl.sum(value, axis=0))"),
            "wrong_output",
            "correctness",
            "off",
        ),
        (vary("class ModelNew", "class Model"), "rejected", "format", "ModelNew"),
        (vary("def forward(self, x):", "def forward(self, x:"), "build_failed", "compile", "line 20"),
        (in_forward("import os; os.kill(os.getpid(), 11)"), "rejected", "format", "os.kill"),
        (returning("torch.softmax(x, 1)"), "rejected", "format", "softmax"),
        (returning("(y + 0)"), "rejected", "format", "add"),
        (returning("y.double()"), "wrong_output", "correctness", "dtype float64, expected float32"),
        (returning("y[:, :-1]"), "wrong_output", "correctness", "shape [32, 63], expected [32, 64]"),
        (returning("(y, y)"), "wrong_output", "correctness", "a sequence of 2"),
        (returning("torch.empty_like(y)"), "wrong_output", "correctness", "elements are off"),
        (returning("nn.Parameter(y)"), "wrong_output", "correctness", "plain torch.Tensor"),
        (in_forward("x.zero_()"), "wrong_output", "correctness", ""),
        (in_forward("raise ValueError('no luck')"), "raised", "correctness", "no luck\n  line 22, in forward"),
        (in_forward("1 + x.no_such"), "raised", "correctness", "no_such"),
        (vary("class ModelNew", "undefined_name\nclass ModelNew"), "raised", "compile", "undefined_name"),
    ],
)
async def test_each_fault_has_its_stage_and_text(
    pool: LocalPool, code: str, kind: str, stage: str, text: str
) -> None:
    outcome = (await evaluated(pool, code)).outcome
    assert (outcome.kind, outcome.stage) == (kind, stage), outcome
    assert text in getattr(outcome, "message", "")
    assert str(Path.cwd()) not in getattr(outcome, "message", "")


async def test_the_guard_sees_what_the_text_hides(pool: LocalPool) -> None:
    code = in_forward("hidden = [x.sum, torch.softmax][1]").replace("return y", "return hidden(x, 1)")
    outcome = (await evaluated(pool, code)).outcome
    assert (outcome.kind, outcome.stage) == ("rejected", "format")
    assert "softmax" in outcome.message


async def test_a_swallowed_violation_still_counts(pool: LocalPool) -> None:
    code = in_forward(
        "\n        try: hidden = [torch.softmax][0]; hidden(x, 1)\n        except RuntimeError: pass"
    )
    outcome = (await evaluated(pool, code)).outcome
    assert (outcome.kind, outcome.stage) == ("rejected", "format")


async def test_weights_are_those_of_the_reference(pool: LocalPool) -> None:
    task = TASK.replace("    def forward(self, x):\n        return torch.softmax(x, dim=1)", SCALED)
    kept = (
        in_forward("x = x")
        .replace("class ModelNew(nn.Module):", HOLDER)
        .replace("value / tl.sum(value, axis=0)", "value / tl.sum(value, axis=0) * tl.load(w + column, mask=mask)")
    )
    kept = kept.replace("(x, y, n, stride,", "(x, y, w, n, stride,").replace(
        "(x, y, n, x.stride(0),", "(x, y, self.scale, n, x.stride(0),"
    )
    assert (await evaluated(pool, kept, task=task)).outcome.kind == "passed"
    renamed = kept.replace("self.scale", "self.other")
    outcome = (await evaluated(pool, renamed, task=task)).outcome
    assert outcome.kind == "wrong_output"
    assert "ModelNew has no scale of shape [64]" in outcome.message


SCALED = """    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return torch.softmax(x, dim=1) * self.scale"""

HOLDER = """class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(64))
"""


async def test_a_constructor_draws_what_the_references_draws(pool: LocalPool) -> None:
    drawing = """    def __init__(self):
        super().__init__()
        self.factor = 1.0 + random.random() + float(numpy.random.rand()) + float(torch.rand(1))

"""
    imports = "import random\nimport numpy\nimport torch\n"
    task = TASK.replace("    def forward(", drawing + "    def forward(", 1).replace("import torch\n", imports, 1)
    task = task.replace("dim=1)", "dim=1) * self.factor", 1)
    code = in_forward("x = x").replace("    def forward(", drawing + "    def forward(", 1)
    code = code.replace("import torch\n", imports, 1).replace("(x, y, n, stride,", "(x, y, factor, n, stride,")
    code = code.replace("(x, y, n, x.stride(0),", "(x, y, self.factor, n, x.stride(0),")
    code = code.replace("value / tl.sum(value, axis=0)", "value / tl.sum(value, axis=0) * factor")
    outcome = (await evaluated(pool, code, task=task)).outcome
    assert outcome.kind == "passed", outcome


async def test_tuples_integers_and_strides(pool: LocalPool) -> None:
    outcome = (await evaluated(pool, PAIR, task=PAIR_TASK)).outcome
    assert outcome.kind == "passed", outcome
    off_by_one = (await evaluated(pool, PAIR.replace("index + 0", "index + 1"), task=PAIR_TASK)).outcome
    assert off_by_one.kind == "wrong_output"
    assert off_by_one.message.count("output 1") == 1


PAIR_TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, index):
        return x * 2, index


def get_inputs():
    return [torch.randn(16, 8).t(), torch.randint(0, 1000, (64,))]


def get_init_inputs():
    return []
"""

PAIR = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double(x, y, rows, columns, sx0, sx1, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row, column = i // columns, i % columns
    tl.store(y + i, tl.load(x + row * sx0 + column * sx1) * 2)


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    index = tl.load(x + i)
    tl.store(y + i, index + 0)


class ModelNew(nn.Module):
    def forward(self, x, index):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        double[(1,)](x, y, *x.shape, *x.stride(), BLOCK=128)
        z = torch.empty_like(index)
        copy[(1,)](index, z, BLOCK=64)
        return y, z
"""


async def test_a_broken_task_is_no_fault_of_the_submission(pool: LocalPool) -> None:
    outcome = (await evaluated(pool, RIGHT, task=TASK.replace("dim=1", "dim=7"))).outcome
    assert outcome.kind == "infrastructure"
    assert not outcome.retryable


async def test_compiling_in_init_is_a_violation(pool: LocalPool) -> None:
    body = (
        "    def __init__(self):\n        super().__init__()\n"
        "        make = [torch.jit.script]\n        make[0](nn.ReLU())\n\n"
    )
    outcome = (await evaluated(pool, vary("    def forward", body + "    def forward"))).outcome
    assert (outcome.kind, outcome.stage) == ("rejected", "format")


@pytest.mark.parametrize("where", ["__init__", "state_dict", "__del__"])
async def test_a_graph_captured_outside_forward_is_a_violation(pool: LocalPool, where: str) -> None:
    capture = "torch.cuda.CUDAGraph.capture_begin(None)"
    method = {
        "__init__": f"    def __init__(self):\n        super().__init__()\n        {capture}\n\n",
        "state_dict": f"    def state_dict(self, **options):\n        {capture}\n\n",
        "__del__": "",
    }[where]
    code = vary("    def forward", method + "    def forward")
    if where == "__del__":
        code = code.replace("        return y\n", "        x.later = Later()\n        return y\n")
        code = code.replace(
            "class ModelNew", f"class Later:\n    def __del__(self):\n        {capture}\n\n\nclass ModelNew"
        )
    outcome = (await evaluated(pool, code, mode="unchecked")).outcome
    assert (outcome.kind, outcome.stage) == ("rejected", "format"), outcome
    assert "captured" in outcome.message


async def test_autotune_runs_in_the_interpreter(pool: LocalPool) -> None:
    decorated = vary(
        "@triton.jit\n",
        "@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], key=['n'])\n@triton.jit\n",
    )
    assert (await evaluated(pool, decorated)).outcome.kind == "passed"


async def test_libdevice_is_known_to_the_interpreter(pool: LocalPool) -> None:
    code = vary(
        "import triton.language as tl\n",
        "import triton.language as tl\nfrom triton.language.extra import libdevice\n",
    )
    code = vary("tl.exp(", "libdevice.exp(", code)
    assert (await evaluated(pool, code)).outcome.kind == "passed"


async def test_a_compilers_errors_are_passed_on(pool: LocalPool) -> None:
    """Without torch's headers, which take a compiler half a minute to read."""
    code = vary("#include <ATen/Parallel.h>\n", "", RIGHT_CPP)
    code = code.replace('functions=["softmax"]', 'functions=["softmax"], no_implicit_headers=True')
    wrong = await evaluated(pool, code, language="cpp")
    assert wrong.outcome.kind == "build_failed"
    assert "error: 'torch' does not name a type" in wrong.outcome.message.replace("‘", "'").replace("’", "'")
    assert "-isystem" not in wrong.outcome.message


async def test_an_operator_of_its_own_is_no_violation(pool: LocalPool) -> None:
    register = """
@torch.library.custom_op("own::softmax", mutates_args=())
def own_softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    rows, n = x.shape
    softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y


class ModelNew"""
    code = vary("class ModelNew", register.lstrip("\n"))
    code = code.replace(
        "        y = torch.empty_like(x)\n        rows", "        return torch.ops.own.softmax(x)\n        rows"
    )
    outcome = (await evaluated(pool, code)).outcome
    assert outcome.kind == "passed", outcome


async def test_copies_on_the_device_are_no_violation(pool: LocalPool) -> None:
    code = returning("torch.cat([y[:16], y[16:]]).flip(0).flip(0)")
    outcome = (await evaluated(pool, code)).outcome
    assert outcome.kind == "passed", outcome
