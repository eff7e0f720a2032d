"""Programs and an evaluator for tests of the search: a program says itself how fast it is, and nothing runs."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_env.evolve import BaseEvaluator, EvolveConfig, EvolveResult, KernelEvolve, LLMConfig, Metrics

from .endpoint import Endpoint

SECRET = "sk-planted-3f9a7c51"
HEADER_SECRET = "gateway-planted-77aa"

TASK = """
import torch
import torch.nn as nn

N = M = 4096


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B, D):
        return torch.diag(A) @ B + D


def get_inputs():
    return [torch.randn(N), torch.randn(N, M), torch.randn(N, M)]


def get_init_inputs():
    return []
"""


def program(speed: float = 1.0, fault: str = "", note: str = "") -> str:
    """A program that `Landscape` takes for one of this speedup, or with this fault."""
    return f'''"""{note}"""
import torch

SPEED = {speed!r}
FAULT = {fault!r}


class ModelNew(torch.nn.Module):
    def forward(self, A, B, D):
        return launch(A, B, D, SPEED)
'''


def answer(code: str, idea: str = "an idea") -> str:
    return f"Idea: {idea}\n\n```python\n{code}```\n"


def speed_in(text: str) -> float:
    """The speed of the last program in a text; 0 without one."""
    found = re.findall(r"^SPEED *= *([\d.]+)", text, re.MULTILINE)
    return float(found[-1]) if found else 0.0


class Landscape(BaseEvaluator):
    """What programs say of themselves; `noise(program's speed, times it was evaluated)` is a factor on it."""

    def __init__(self, noise: Callable[[float, int], float] | None = None) -> None:
        self.noise = noise
        self.seen: Counter[str] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self.delay_s = 0.0

    async def evaluate(self, initial_code: str, evolve_code: str) -> Metrics:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
            return self.judge(evolve_code)
        finally:
            self.at_once -= 1

    def judge(self, code: str) -> Metrics:
        times = self.seen[code]
        self.seen[code] += 1
        fault = re.search(r"^FAULT = '(\w*)'$", code, re.MULTILINE)
        kind = fault[1] if fault else "compile"
        if kind == "raise":
            raise RuntimeError(f"the evaluator broke {SECRET}")
        if kind == "once" and times > 0:
            return Metrics(0.0, 1.0, 1.0, "wrong on other seeds", stage="correctness")
        if kind in ("format", "compile", "correctness", "timing"):
            return Metrics(0.0, 1.0, 1.0, f"line 3: broken at {kind}", stage=kind, feedback=f"Broken at {kind}.")
        if kind == "impossible":
            return Metrics(900.0, 9.0, 0.01, stage="timing", error="x", quarantine="faster than memory allows")
        speed = speed_in(code) * (self.noise(speed_in(code), times) if self.noise else 1.0)
        return Metrics(
            speed,
            10.0,
            10.0 / speed,
            speedup_low=speed * 0.99,
            speedup_high=speed * 1.01,
            device_seconds=1.0,
            roofline_frac=min(speed / 8.0, 1.0),
        )


class Blocking(BaseEvaluator):
    """A plain `evaluate`, as users write it."""

    def __init__(self, act: Callable[[str], Any]) -> None:
        self.act = act
        self.threads: set[str] = set()

    def evaluate(self, initial_code: str, evolve_code: str) -> Metrics:
        self.threads.add(threading.current_thread().name)
        found = self.act(evolve_code)
        assert isinstance(found, Metrics)
        return found


def llm(endpoint: Endpoint, **options: Any) -> LLMConfig:
    headers = {"X-Gateway": HEADER_SECRET}
    return LLMConfig(
        "OpenAIChatClient", "scripted", SECRET, endpoint.url, **{"default_headers": headers, **options}
    )


def kernel_evolve(
    endpoint: Endpoint,
    folder: Path,
    config: Mapping[str, Any] | None = None,
    evaluator: BaseEvaluator | None = None,
    options: Mapping[str, Any] | None = None,
    initial_code: str = TASK,
    **more: Any,
) -> KernelEvolve:
    return KernelEvolve(
        initial_code,
        llm(endpoint, **(options or {})),
        evaluator or Landscape(),
        config=EvolveConfig.parse(config or {}),
        run_dir=folder / "run",
        **more,
    )


def evolve(endpoint: Endpoint, folder: Path, *arguments: Any, **more: Any) -> EvolveResult:
    return kernel_evolve(endpoint, folder, *arguments, **more).evolve()


def tree_of(result: EvolveResult) -> list[dict[str, Any]]:
    return [node.summary() for node in result.history]
