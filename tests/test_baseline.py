"""The second baseline, torch.compile: measured once for a task, again on drift, and no submission's fault."""

from __future__ import annotations

import pytest

from kernel_env.server.baseline import Baselines
from kernel_env.server.config import Settings
from kernel_env.server.link import Ended
from kernel_env.server.outcome import Infrastructure, TaskSource, Timing

from .pools import evaluated, started

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.full((256,), scale))

    def forward(self, x):
        return torch.tanh(x * self.scale + 1.0).sum(dim=1)


def get_inputs():
    return [torch.randn(512, 256)]


def get_init_inputs():
    return [0.5]
"""
REFERENCE = TaskSource(id="user/task", source=TASK, hash="").as_submission


def timing(ref_ms: float, speedup: float = 2.0) -> Timing:
    return Timing(
        runtime_ms=ref_ms / speedup,
        ref_runtime_ms=ref_ms,
        speedup=speedup,
        low=speedup,
        high=speedup,
        samples=10,
        clock="events",
    )


class Measure:
    """Compiled against eager: counts how often it is asked."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self.asked = 0

    def __call__(self) -> Timing:
        self.asked += 1
        return timing(1.0, self.ratio)


def test_it_is_measured_once_and_again_on_drift() -> None:
    baselines, measure = Baselines(), Measure(4.0)
    first, note = baselines.beside("a", timing(8.0), measure)
    assert (first.compiled_ms, note, measure.asked) == (2.0, "", 1)
    again, _ = baselines.beside("a", timing(8.08), measure)
    assert (again.compiled_ms, measure.asked) == (pytest.approx(2.02), 1)
    baselines.beside("a", timing(9.0), measure)
    assert measure.asked == 2
    baselines.beside("b", timing(8.0), measure)
    assert measure.asked == 3


def test_what_cannot_be_compiled_has_none_and_says_why() -> None:
    def fail() -> Timing:
        raise Ended(Infrastructure(message="the reference failed: no such backend", retryable=lost))

    for lost in (False, True):
        baselines, measure = Baselines(), Measure(4.0)
        result, note = baselines.beside("a", timing(8.0), fail)
        assert result.compiled_ms is None
        assert note == "No torch.compile baseline: the reference failed: no such backend"
        baselines.beside("a", timing(8.0), measure)
        assert measure.asked == int(lost)


def test_what_there_was_no_time_for_is_tried_again() -> None:
    asked = []

    def fail() -> Timing:
        asked.append(1)
        raise Ended(Infrastructure(message="the reference failed: timed out", retryable=False))

    baselines = Baselines()
    for _ in range(2):
        baselines.beside("a", timing(8.0), fail, shortened=True)
    assert len(asked) == 2
    for _ in range(2):
        baselines.beside("a", timing(8.0), fail)
    assert len(asked) == 3


@pytest.mark.slow
async def test_the_reference_is_compiled_and_timed_beside_the_submission() -> None:
    async with started(Settings(evaluator="cpu", baseline="compile", trials=1, timing_budget_s=0.3)) as pool:
        evaluation = await evaluated(pool, REFERENCE, task=TASK, language="cpp", mode="audit")
    assert evaluation.outcome.kind == "passed", evaluation.outcome
    measured = evaluation.outcome.timing
    assert measured is not None
    assert measured.clock in ("wall", "judge")
    assert 0.0 < measured.low <= measured.speedup <= measured.high
    assert measured.samples >= 10
    assert measured.compiled_ms is not None, evaluation.outcome.note
    assert 0.02 < measured.compiled_ms / measured.ref_runtime_ms < 50.0
    assert "baseline" in evaluation.durations
