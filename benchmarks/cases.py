"""The honest kernels that are measured again and again: from 4 us to about 50 ms on an H200.

Tiny and huge ones go with tasks of their own, as KernelBench has none of such sizes; the others are kernels of
`tests/kernels` for KernelBench's tasks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kernel_env.server.outcome import Device, TaskSource
from tests.kernels import FOLDER as KERNELS
from tests.kernels import Kernel, kernels

LONG_MS = 0.03  # from here on, targets are tight
HONEST = Path(__file__).resolve().parents[1] / "tests" / "honest"

KERNELBENCH = (
    "level1/12_Matmul_with_diagonal_matrices_",
    "level1/88_MinGPTNewGelu",
    "level1/14_Matmul_for_upper_triangular_matrices",
    "level1/89_cumsum",
    "level1/23_Softmax",
    "level1/97_ScaledDotProductAttention",
)

_TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, ARGUMENTS):
        return RESULT


def get_inputs():
    return [INPUTS]


def get_init_inputs():
    return []
"""

_AFFINE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        affine[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


@dataclass(frozen=True)
class Case:
    """A task and an honest submission for it."""

    name: str
    task: TaskSource
    language: str
    code: str


def cases(device: Device, kernelbench: Path | None, names: list[str]) -> list[Case]:
    """All that fit the device (or what `names` are parts of), the quickest first.

    Without `kernelbench`, its folder of tasks, only those with tasks of their own.
    """
    every = _on_cpu() if device.kind == "cpu" else [*_tiny(), *_from_kernelbench(kernelbench), _huge()]
    return [case for case in every if not names or any(name in case.name for name in names)]


def case_of(kernel: Kernel, source: str) -> Case:
    """A kernel of `tests/kernels` with its task's text."""
    return Case(kernel.task_id, _source(kernel.task_id, source), kernel.language, kernel.code)


def _tiny() -> list[Case]:
    return [
        Case(f"affine {title}", _task("affine", "x", "x * 2.0 + 1.0", f"torch.randn({count})"), "triton", _AFFINE)
        for title, count in (("8 KB", 1 << 10), ("24 MB", 3 << 20), ("128 MB", 1 << 24))
    ]


def _from_kernelbench(folder: Path | None) -> list[Case]:
    if folder is None:
        return []
    known = {kernel.task_id: kernel for kernel in kernels("triton")}
    return [case_of(known[task_id], (folder / f"{task_id}.py").read_text()) for task_id in KERNELBENCH]


def _huge() -> Case:
    code = (KERNELS / "triton" / "level1_1_Square_matrix_multiplication_.py").read_text()
    inputs = ", ".join(2 * ["torch.rand(16384, 16384)"])
    return Case("matmul 16384", _task("matmul", "A, B", "torch.matmul(A, B)", inputs), "triton", code)


def _on_cpu() -> list[Case]:
    task = _task("relu", "x", "torch.relu(x)", "torch.randn(1024, 1024)")
    return [Case("relu 8 MB", task, "cpp", (HONEST / "cpp" / "relu.py").read_text())]


def _task(name: str, arguments: str, result: str, inputs: str) -> TaskSource:
    text = _TASK.replace("ARGUMENTS", arguments).replace("RESULT", result).replace("INPUTS", inputs)
    return _source(f"user/{name}", text)


def _source(task_id: str, text: str) -> TaskSource:
    return TaskSource(id=task_id, source=text, hash=hashlib.sha256(text.encode()).hexdigest()[:16])
