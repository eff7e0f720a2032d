"""Tasks in 16 bits: what is cast and what stays, which tolerance holds, which kernels pass."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import torch

from kernel_env.server.casting import cast_fake
from kernel_env.server.config import Settings, SettingsError
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Device
from kernel_env.server.problem import problem_text
from kernel_env.server.profile import NEEDS_CUDA
from kernel_env.server.reference import Reference
from kernel_env.server.roofline import measure, needed
from kernel_env.server.sketch import Fakes, sketch
from kernel_env.server.tasks import TaskSet
from kernel_env.server.verify import Verifier

from .pools import evaluated, started

CPU = torch.device("cpu")
TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64))
        self.register_buffer("counts", torch.arange(64))
        self.shift = shift
        self.one = torch.ones(64)

    def forward(self, x, rows):
        return self.one.to(x.device) * torch.tanh(x[rows] * self.weight + self.shift)


def get_inputs():
    return [torch.randn(32, 64), torch.randint(0, 32, (16,))]


def get_init_inputs():
    return [torch.full((64,), 0.5)]
"""
FORWARD = "self.one.to(x.device) * torch.tanh(x[rows] * self.weight + self.shift)"
KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather(x, rows, weight, shift, y, N: tl.constexpr):
    at = tl.arange(0, N)
    row = tl.load(rows + tl.program_id(0))
    value = tl.load(x + row * N + at).to(tl.float32)
    value = value * tl.load(weight + at) + tl.load(shift + at)
    tl.store(y + tl.program_id(0) * N + at, 2.0 * tl.sigmoid(2.0 * value) - 1.0)


class ModelNew(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64))
        self.register_buffer("counts", torch.arange(64))
        self.shift = shift

    def forward(self, x, rows):
        kinds = [t.dtype for t in (x, self.weight, self.shift, rows, self.counts)]
        if kinds != [torch.float16] * 3 + [torch.int64] * 2:
            raise TypeError(f"cast otherwise: {kinds}")
        y = torch.empty(rows.shape[0], 64, dtype=x.dtype, device=x.device)
        gather[(rows.shape[0],)](x, rows, self.weight, self.shift, y, N=64)
        return y
"""
OVERFLOWS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 300.0 / 300.0


def get_inputs():
    return [300.0 + torch.rand(64)]


def get_init_inputs():
    return []
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    settings = Settings(evaluator="cpu", trials=2, checks="strict", precision="fp16", profile=True)
    async with started(settings) as pool:
        yield pool


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("", "", "passed", ""),
        ("dtype=x.dtype", "dtype=torch.float32", "wrong_output", "dtype float32, expected float16"),
        ("tl.load(x + row * N + at)", "tl.load(x + row * N + at).to(tl.float8e5)", "wrong_output", "off"),
    ],
    ids=["honest", "fp32 output", "fewer bits"],
)
async def test_kernels_in_16_bits(pool: LocalPool, old: str, new: str, kind: str, message: str) -> None:
    code = KERNEL.replace(old, new) if old else KERNEL
    outcome = (await evaluated(pool, code, task=TASK)).outcome
    assert outcome.kind == kind, outcome
    assert message in getattr(outcome, "message", "")
    assert (NEEDS_CUDA in getattr(outcome, "note", "")) == (kind == "passed"), "a CPU has no profile, and says so"


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_floating_point_is_cast_and_all_else_stays(precision: str, dtype: torch.dtype) -> None:
    reference = Reference("user/task", TASK, CPU, 1, precision=precision)
    x, rows = reference.inputs(1)
    state = reference.state()
    assert [t.dtype for t in (x, state["weight"], reference.arguments[0], reference([x, rows]))] == [dtype] * 4
    assert (rows.dtype, state["counts"].dtype) == (torch.int64, torch.int64)
    plain = Reference("user/task", TASK, CPU, 1)
    assert torch.equal(x, plain.inputs(1)[0].to(dtype)), "one seed gives one task, rounded"
    assert reference.footprint() < plain.footprint()
    found = sketch("user/task", TASK.replace("torch.full((64,), 0.5)", "0.5"), CPU, precision)
    kinds = [slot[2] for slot in found["inputs"]["slots"]]
    assert kinds == [str(dtype).removeprefix("torch."), "int64"]


def test_a_model_of_fake_tensors_is_cast_for_a_rehearsal() -> None:
    with Fakes(), torch.no_grad():
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        cast_fake(model, "bf16")
        kinds = {name: value.dtype for name, value in model.state_dict().items()}
        assert model(torch.rand(2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert kinds.pop("1.num_batches_tracked") == torch.int64
    assert set(kinds.values()) == {torch.bfloat16}
    assert len(kinds) == 6


def test_a_kernel_that_rounds_once_is_right_where_the_reference_overflows() -> None:
    reference = Reference("user/task", OVERFLOWS, CPU, 1, precision="fp16")
    verifier = Verifier(reference, 1e-2, 1e-2)
    inputs = reference.inputs(1)
    expected = [reference(inputs)]
    assert torch.isinf(expected[0]).all()
    assert verifier.wrong([inputs[0]], expected, None, inputs) is None
    assert verifier.wrong([inputs[0] * 1.1], expected, None, inputs) is not None
    assert verifier.wrong(expected, expected, None, inputs) is None


def test_an_invariant_that_rounding_breaks_does_not_count() -> None:
    softmax = TASK.replace(FORWARD, "torch.softmax(x, 1)").replace("torch.randn(32, 64)", "torch.ones(2, 49153)")
    for precision in ("fp32", "fp16"):
        reference = Reference("level1/23_Softmax", softmax, CPU, 1, precision=precision)
        inputs = reference.inputs(1)
        expected = [reference(inputs)]
        verifier = Verifier(reference, 1e-2, 1e-2)
        assert verifier.wrong(expected, expected, None, inputs) is None, precision
        neighbour = expected[0].clone()
        neighbour[0, 0] = torch.nextafter(neighbour[0, 0], torch.zeros(()).to(neighbour.dtype))
        assert verifier.wrong([neighbour], expected, None, inputs) is None, precision
        assert verifier.wrong([torch.zeros_like(neighbour)], expected, None, inputs) is not None, precision


def test_floors_of_32_bits_are_not_those_of_16() -> None:
    task = TASK.replace(FORWARD, "torch.relu(x)") + ('EXTRA_CHECKS = {"reads": [0.5, 0.0]}\n')
    read = {}
    for precision in ("fp32", "fp16"):
        reference = Reference("user/task", task, CPU, 1, precision=precision)
        inputs = reference.inputs(1)
        outputs, _, size = measure(reference, inputs)
        read[precision] = needed("user/task", reference, inputs, outputs, 1e-2).read
        assert size > 0
    assert read["fp16"] == read["fp32"] / 2, "what a task itself declares holds for its bytes"


@pytest.mark.parametrize(
    ("environ", "tolerances"),
    [
        ({}, (1e-2, 1e-2)),
        ({"KERNEL_ENV_PRECISION": "fp16"}, (1e-2, 1e-2)),
        ({"KERNEL_ENV_PRECISION": "bf16"}, (2e-2, 2e-2)),
        ({"KERNEL_ENV_TOLERANCES": "kernelbench"}, (1e-4, 1e-4)),
        ({"KERNEL_ENV_TOLERANCES": "kernelbench", "KERNEL_ENV_PRECISION": "bf16"}, (1e-2, 1e-2)),
        ({"KERNEL_ENV_PRECISION": "bf16", "KERNEL_ENV_RTOL": "0.5"}, (2e-2, 0.5)),
    ],
)
def test_tolerances_follow_the_precision(environ: dict[str, str], tolerances: tuple[float, float]) -> None:
    settings = Settings.from_env(environ)
    assert (settings.atol, settings.rtol) == tolerances


def test_an_unknown_precision_names_the_choices() -> None:
    with pytest.raises(SettingsError, match="KERNEL_ENV_PRECISION='fp8' is not allowed; use one of: fp32"):
        Settings.from_env({"KERNEL_ENV_PRECISION": "fp8"})


def test_the_problem_text_states_the_precision() -> None:
    task = TaskSet.load(Settings()).get("level1/e01_RowSoftmax")
    for precision, name in (("fp16", "torch.float16"), ("bf16", "torch.bfloat16")):
        settings = Settings.from_env({"KERNEL_ENV_PRECISION": precision})
        text = problem_text(task, "triton", settings, None)
        assert f"{settings.atol:g} + {settings.rtol:g} * |expected|" in text
        assert f"cast to `{name}`" in text
    bf16 = Settings(precision="bf16")
    cpu, gpu = (Device.model_validate({"kind": kind, "name": "any"}) for kind in ("cpu", "cuda"))
    told = [
        problem_text(task, language, bf16, on) for language, on in (("triton", cpu), ("triton", gpu), ("cpp", cpu))
    ]
    assert ["interpreter gets arithmetic on bf16" in text for text in told] == [True, False, False]
    assert ["data_ptr<at::BFloat16>()" in text for text in told] == [False, False, True]
    assert "cast to" not in problem_text(task, "triton", Settings(), None).split("## How it is judged")[1]
