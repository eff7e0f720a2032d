"""The command line as a user runs it: processes, exit codes and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_env import __version__

DEMOS = Path(__file__).parents[1] / "kernel_env" / "demos"
DOUBLE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
"""
RIGHT = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


def run(*arguments: str, timeout: float = 120, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL")}
    return subprocess.run(
        [sys.executable, "-m", "kernel_env.cli", *arguments],
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "level1"
    folder.mkdir(parents=True)
    (folder / "1_Double.py").write_text(DOUBLE)
    (folder / "2_Broken.py").write_text("def get_inputs(:\n")
    return tmp_path / "tasks"


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, kernel_env.cli;"
        "heavy = {'torch', 'openenv', 'gradio', 'pydantic', 'numpy', 'websockets'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert run("--version").stdout.strip() == __version__
    shown = run("--help")
    assert shown.returncode == 0
    assert all(command in shown.stdout for command in ("serve", "demo", "tasks", "eval", "doctor"))


def test_a_wrong_setting_is_one_line_and_status_2() -> None:
    done = run("tasks", "list", KERNEL_ENV_MAX_TURNS="many")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "KERNEL_ENV_MAX_TURNS='many'" in done.stderr
    assert run("serve", "--port", "70000").returncode == 2


def test_tasks_are_listed_by_split() -> None:
    everything = [json.loads(line) for line in run("tasks", "list", "--json").stdout.splitlines()]
    held_out = [json.loads(line) for line in run("tasks", "list", "--json", "--split", "eval").stdout.splitlines()]
    assert len(everything) >= 30
    assert held_out == [task for task in everything if task["split"] == "eval"]
    assert run("tasks", "list", "--split", "test").returncode == 2


def test_a_broken_task_is_listed_with_its_reason(task: Path) -> None:
    shown = run("tasks", "list", "--tasks", str(task))
    assert shown.returncode == 0
    assert "level1/1_Double" in shown.stdout
    assert "SyntaxError" in shown.stdout or "syntax" in shown.stdout.lower()
    assert run("tasks", "show", "level1/2_Broken", "--tasks", str(task)).returncode == 2


def test_show_prints_the_source(task: Path) -> None:
    shown = run("tasks", "show", "level1/1_Double", "--tasks", str(task))
    assert DOUBLE.strip() in shown.stdout
    unknown = run("tasks", "show", "level1/1_Duble", "--tasks", str(task))
    assert unknown.returncode == 2
    assert "level1/1_Double" in unknown.stderr


def test_a_task_source_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = run("tasks", "list", "--tasks", str(tmp_path / "nothing"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_doctor_names_the_device_and_what_is_missing() -> None:
    done = run("doctor", "--json")
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)}
    assert {"python", "torch", "triton", "openenv", "g++", "ninja", "nvcc", "landlock", "tasks"} <= set(facts)
    assert done.returncode == (1 if any(fact["state"] == "missing" for fact in facts.values()) else 0)
    for fact in facts.values():
        assert fact["state"] == "ok" or fact["advice"] or fact["name"] == "landlock"


def test_eval_on_the_mock_evaluator(task: Path, tmp_path: Path) -> None:
    submission = tmp_path / "right.py"
    submission.write_text(RIGHT)
    where = ("--task", "level1/1_Double", "--tasks", str(task), "--evaluator", "mock", "--json")
    done = run("eval", str(submission), *where)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["stage"] == "passed"
    assert verdict["mock"] is True
    assert verdict["language"] == "triton"
    assert json.loads(run("eval", str(DEMOS / "right_cpp.py"), *where).stdout)["language"] == "cpp"
    refused = run("eval", str(DEMOS / "right_cpp.py"), *where, "--language", "triton")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["stage"] == "format"


def test_eval_here(task: Path, tmp_path: Path) -> None:
    submission = tmp_path / "wrong.py"
    submission.write_text(RIGHT.replace("2.0 + 1.0", "2.0 + 1.5"))
    done = run("eval", str(submission), "--task", "level1/1_Double", "--tasks", str(task), "--evaluator", "cpu")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "correctness" in done.stdout
    assert "elements are off" in done.stdout


def test_eval_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    submission = tmp_path / "submission.py"
    submission.write_text(RIGHT)
    assert run("eval", str(tmp_path / "no.py"), "--task", "level1/e01_RowSoftmax").returncode == 2
    assert run("eval", str(submission), "--task", "level1/e01_RowSoftmax", "--language", "rust").returncode == 2
    assert run("eval", str(submission), "--task", "level9/none", "--evaluator", "mock").returncode == 2
    done = run("eval", str(submission), "--task", "level1/e01_RowSoftmax", "--url", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert "127.0.0.1:9" in done.stderr


def test_demo_on_the_mock_evaluator() -> None:
    done = run("demo", KERNEL_ENV_EVALUATOR="mock")
    assert done.returncode == 0, done.stderr
    assert "mock" in done.stdout
    assert "kernel-env serve" in done.stdout


@pytest.mark.slow
def test_demo_without_a_compiler(tmp_path: Path) -> None:
    done = run("demo", timeout=280, KERNEL_ENV_EVALUATOR="cpu", KERNEL_ENV_TRIALS="1", PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    wrong, right = done.stdout.split("Submission: right")
    assert "elements are off" in wrong
    assert "passed" in right
