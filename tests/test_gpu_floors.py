"""The floors on a CUDA device: what they charge for decides the output, and a time below them is refused.

Each entry of the table is tried at KernelBench's own shapes: a program that guesses what the entry says must be
read, by its mean, must be wrong beyond the tolerance.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from kernel_env.server.compare import compare
from kernel_env.server.config import Settings
from kernel_env.server.floor_table import RULES
from kernel_env.server.local import visible_gpus
from kernel_env.server.outcome import ImpossibleTiming, Passed
from kernel_env.server.peaks import Peak
from kernel_env.server.reference import Reference

from .pools import evaluated, started
from .submissions import RIGHT, TASK

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")]

KERNELBENCH = Path(os.environ.get("KERNELBENCH_DIR", Path(__file__).parents[1] / ".kb" / "KernelBench"))
SECTOR = 8
PLACES = 4
# Along which axis of which input numbers can be left out, where a share is below one.
AXES = {
    "matmul": ((0, -1), (1, -2)),
    "16": ((0, 0), (1, 0)),
    "17": ((0, 1), (1, 1)),
    "18": ((0, 0), (1, 1)),
    "47": ((0, 1),),
    "48": ((0, 1),),
    "89": ((0, 1),),
    "91": ((0, 1),),
    "92": ((0, 1),),
    "93": ((0, 1), (1, 1)),
    "97": ((2, 2),),
}
LEVEL1 = [name for name in RULES if name.startswith("level1/")]


def load(task_id: str) -> Reference:
    path = KERNELBENCH / f"{task_id}.py"
    if not path.is_file():
        pytest.skip("needs a KernelBench checkout")
    torch.cuda.empty_cache()
    return Reference(task_id, path.read_text(), torch.device("cuda"), 1)


def differs(reference: Reference, inputs: list[Any], expected: torch.Tensor) -> bool:
    atol = 0.01
    if reference.extras.relative_atol is not None:
        atol = min(atol, reference.extras.relative_atol * float(expected.abs().max()))
    return compare(reference(inputs), expected, atol, 0.01) is not None


def number(task_id: str) -> str:
    return task_id.split("/")[1].split("_")[0]


@pytest.mark.parametrize("task_id", [name for name in LEVEL1 if 1.0 in RULES[name][1].reads])
def test_each_sector_counts(task_id: str) -> None:
    """Eight adjacent numbers, what a memory access brings at least, cannot be guessed."""
    reference = load(task_id)
    inputs = reference.inputs(2)
    expected = reference(inputs)
    for index, share in enumerate(RULES[task_id][1].reads):
        flat = [value for value in inputs if isinstance(value, torch.Tensor)][index].view(-1)
        assert share == 1.0
        for _ in range(PLACES):
            start = SECTOR * int(torch.randint(flat.numel() // SECTOR, ()))
            kept = flat[start : start + SECTOR].clone()
            flat[start : start + SECTOR] = flat[: 1 << 20].mean()
            assert differs(reference, inputs, expected), start
            flat[start : start + SECTOR] = kept


@pytest.mark.parametrize("task_id", [name for name in LEVEL1 if RULES[name][1].reads == (0.95,)])
def test_no_more_sectors_can_be_guessed(task_id: str) -> None:
    reference = load(task_id)
    inputs = reference.inputs(2)
    expected = reference(inputs)
    flat = inputs[0].view(-1)
    sectors = flat[: flat.numel() // SECTOR * SECTOR].view(-1, SECTOR)
    sectors[:: round(1 / 0.05)] = 0.5
    assert differs(reference, inputs, expected)


def left_out(size: int, share: float, late: bool) -> torch.Tensor:
    """Places along an axis, `share` of all: evenly, or the more often the later."""
    places = torch.arange(size, dtype=torch.float64)
    density = 2 * share * places / size if late else torch.full_like(places, share)
    counts = density.clamp(max=1.0).cumsum(0).floor()
    return (counts.diff(prepend=counts.new_zeros(1)) > 0).cuda()


@pytest.mark.parametrize(
    ("task_id", "index", "axis"),
    [
        (name, index, axis)
        for name in LEVEL1
        for index, axis in AXES.get(number(name), AXES["matmul"] if "atmul" in name or "atrix_m" in name else ())
        if RULES[name][1].reads[index] not in (0.45, 1.0)
    ],
)
def test_no_more_can_be_guessed(task_id: str, index: int, axis: int) -> None:
    reference = load(task_id)
    inputs = reference.inputs(2)
    expected = reference(inputs)
    tensor = inputs[index]
    places = left_out(tensor.shape[axis], 1.0 - RULES[task_id][1].reads[index], late="cum" in task_id)
    if "reverse" in task_id:
        places = places.flip(0)
    if tensor.dtype is torch.bool:  # a mask that is one half everywhere
        half = inputs[0] * 0.5
        inputs[0] = torch.where(places, half, inputs[0] * tensor)
        inputs[1] = torch.ones_like(tensor)
    else:
        tensor.movedim(axis, -1)[..., places] = 0.5
    assert differs(reference, inputs, expected)


@pytest.mark.parametrize("task_id", [name for name in RULES if RULES[name][1].writes < 1.0])
def test_what_is_not_charged_is_zero(task_id: str) -> None:
    reference = load(task_id)
    zero = reference(reference.inputs(2)) == 0
    zero &= reference(reference.inputs(3)) == 0
    varying = 1.0 - float(zero.double().mean())
    writes = RULES[task_id][1].writes
    assert writes <= varying <= writes + 0.02


@pytest.mark.asyncio
async def test_a_time_below_the_floor_is_refused_with_its_numbers() -> None:
    """A device whose memory is said to be slower than it is makes an honest kernel too fast."""
    task = TASK.replace("32, 64", "4096, 4096")
    for peaks, kind in ((Peak(500.0, 1000.0, 1.0), ImpossibleTiming), (None, Passed)):
        async with started(Settings(evaluator="gpu", timing_budget_s=0.5, peaks=peaks)) as pool:
            outcome = (await evaluated(pool, RIGHT, task=task)).outcome
        assert isinstance(outcome, kind), outcome
        if isinstance(outcome, ImpossibleTiming):
            assert outcome.runtime_ms < 0.8 * outcome.floor_ms < math.inf
            for part in (f"{outcome.runtime_ms:.4g} ms", f"{outcome.floor_ms:.4g} ms", "1 GB/s", "two processes"):
                assert part in outcome.message
