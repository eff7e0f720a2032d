"""The audit of mutants: strict checks refuse wrong answers of each class; tasks that tell nothing carry a note."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.mutation import Row, counts, known, rows, survivors
from kernel_env.server.tasks import SplitError, TaskSet

asynchronous = pytest.mark.asyncio(loop_scope="module")

FORM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        LAYERS

    def forward(self, x, *others):
        return FORWARD


def get_inputs():
    return [INPUTS]


def get_init_inputs():
    return []
"""
TASKS = {
    "1_ReLU": ("pass", "torch.relu(x)", "torch.rand(16, 256)"),
    "2_LongSoftmax": ("pass", "torch.softmax(x, 1)", "torch.rand(4, 4096)"),
    "3_Norm": ("self.norm = nn.LayerNorm(64)", "self.norm(x)", "torch.rand(32, 64)"),
    "4_Linear": ("self.linear = nn.Linear(256, 64)", "self.linear(x)", "torch.rand(32, 256)"),
    "5_MeanSquare": ("pass", "((x - others[0]) ** 2).mean()", "torch.rand(64, 512), torch.rand(64, 512)"),
    "6_ConvBatchNorm": (
        "self.conv = nn.Conv2d(4, 8, 3); self.norm = nn.BatchNorm2d(8)",
        "self.norm(self.conv(x))",
        "torch.rand(4, 4, 12, 12)",
    ),
    "7_Zero": (
        "self.linear = nn.Linear(64, 32)",
        "self.linear(x).amin(1).clamp(max=0).relu()",
        "torch.rand(8, 64)",
    ),
    "8_Dropout": ("self.drop = nn.Dropout(0.5)", "self.drop(torch.ones_like(x)) + 0 * x", "torch.rand(16, 64)"),
    "9_Argmax": ("pass", "x.argmax(1)", "torch.rand(64, 4096)"),
}
TELLING = [name for name in TASKS if name not in ("7_Zero", "8_Dropout")]


def source(name: str) -> str:
    layers, forward, inputs = TASKS[name]
    return FORM.replace("LAYERS", layers).replace("FORWARD", forward).replace("INPUTS", inputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "level1"
    path.mkdir()
    for name in TASKS:
        (path / f"{name}.py").write_text(source(name))
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(folder: Path) -> dict[str, Row]:
    tasks = TaskSet.load(Settings(tasks=(str(folder),)))
    return {row.task_id.removeprefix("level1/"): row async for row in rows(tasks.all(), "cpu", "")}


def accepted(row: Row, rule: str) -> set[str]:
    return {name for name, found in row.mutants.items() if found["accepted"].get(rule)}


@asynchronous
@pytest.mark.parametrize("name", TELLING)
async def test_strict_checks_refuse_every_mutant(found: dict[str, Row], name: str) -> None:
    row = found[name]
    assert (row.fault, row.note) == ("", "")
    excused = {"6_ConvBatchNorm": {"dropped bias", "fp16 arithmetic"}, "4_Linear": {"fp16 arithmetic"}}
    assert accepted(row, "strict") <= excused.get(name, set()), row.mutants


@asynchronous
async def test_what_is_accepted_has_a_reason(found: dict[str, Row]) -> None:
    """A bias in front of a batch norm cancels: leaving it out is the same function."""
    reasons = {(name, task): why for name, task, why in survivors(list(found.values()))}
    assert reasons["dropped bias", "level1/6_ConvBatchNorm"] == "the same function, within rounding"
    assert "unknown" not in reasons.values()


@asynchronous
async def test_laxer_rules_accept_what_strict_ones_refuse(found: dict[str, Row]) -> None:
    assert "identity" in accepted(found["1_ReLU"], "standard")
    assert {"zeros", "constant", "previous output", "half"} <= accepted(found["2_LongSoftmax"], "allclose")
    assert "previous output" in accepted(found["5_MeanSquare"], "allclose")
    table = counts(list(found.values()))
    assert table["x 1.009"]["allclose"] >= len(TELLING) - 1
    assert table["x 1.009"]["strict"] == 0


@asynchronous
async def test_tasks_that_tell_nothing_carry_a_note(found: dict[str, Row]) -> None:
    assert "the same for all inputs" in found["7_Zero"].note
    assert "random" in found["8_Dropout"].note
    assert "zeros" in accepted(found["7_Zero"], "strict")
    assert not [task for _, task, _ in survivors(list(found.values())) if task == "level1/7_Zero"]


def test_such_tasks_are_in_no_split_under_strict_checks(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(source("1_ReLU"))
    (tmp_path / "zero.py").write_text(source("7_Zero") + "\nEXTRA_CHECKS = {'undecided': 'always zero'}\n")
    drawn = {}
    for checks in ("standard", "strict"):
        tasks = TaskSet.load(Settings.from_env({"KERNEL_ENV_TASKS": str(tmp_path), "KERNEL_ENV_CHECKS": checks}))
        drawn[checks] = {task_id for split in ("train", "eval") for task_id in tasks.ids(split)}
        assert tasks.get("user/zero").source
    assert drawn == {"standard": {"user/plain", "user/zero"}, "strict": {"user/plain"}}
    alone = TaskSet.load(Settings(tasks=(str(tmp_path / "zero.py"),), checks="strict"))
    with pytest.raises(SplitError):
        alone.pick(0, "train")


def test_an_audit_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    tasks = TaskSet.load(Settings(tasks=(str(folder),)))
    done = [Row(task.id, task.hash, mutants={"zeros": {"accepted": {"strict": False}}}) for task in tasks.all()]
    kept.write_text("".join(f"{row.json()}\n" for row in done))
    assert known(kept)["level1/1_ReLU"] == done[0]
    ended = subprocess.run(
        [
            *[sys.executable, "-m", "kernel_env.cli", "tasks", "audit", "--mutants", "--json"],
            *["--evaluator", "cpu", "--tasks", str(folder), "--resume", str(kept)],
        ],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)["summary"]
    assert summary["tasks"] == len(TASKS)
    assert summary["accepted"]["zeros"] == {"allclose": 0, "standard": 0, "strict": 0, "tasks": len(TASKS)}
    assert len(kept.read_text().splitlines()) == len(TASKS)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"task": 1}\n')
    with pytest.raises(ValueError, match="something else"):
        known(tmp_path / "rows.jsonl")
