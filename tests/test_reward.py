"""Rewards at every corner: the clamps, no timing, and values that are no measurement."""

from __future__ import annotations

import itertools
import math

import pytest

from kernel_env.server.outcome import (
    BuildFailed,
    Crashed,
    Infrastructure,
    OutOfMemory,
    Passed,
    Raised,
    Rejected,
    Roofline,
    TimedOut,
    Timing,
    WrongOutput,
)
from kernel_env.server.reward import REWARD_RANGE, reward, roofline_reward, speedup_reward

INF = math.inf
NAN = math.nan


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        (None, 0.3),
        (1.0, 0.3),
        (2.0, 1.3),
        (4.0, 2.3),
        (8.0, 3.3),
        (8.001, 3.3),
        (1e300, 3.3),
        (INF, 3.3),
        (2**0.5, 0.8),
        (2**-0.1, 0.2),
        (2**-0.2, 0.1),
        (0.5, 0.1),
        (5e-324, 0.1),
        (0.0, 0.1),
        (-0.0, 0.1),
    ],
)
def test_speedup(speedup: float | None, expected: float) -> None:
    assert speedup_reward(True, speedup) == pytest.approx(expected, abs=1e-12)
    assert speedup_reward(False, speedup) == 0.0


@pytest.mark.parametrize("speedup", [NAN, -NAN, -1.0, -5e-324, -INF])
@pytest.mark.parametrize("correct", [True, False])
def test_speedup_that_is_no_measurement(correct: bool, speedup: float) -> None:
    with pytest.raises(ValueError, match="not a measurement"):
        speedup_reward(correct, speedup)


@pytest.mark.parametrize(
    ("t_min", "runtime", "expected"),
    [
        (1.0, 1.0, 3.0),
        (1.0, 2.0, 1.65),
        (1.0, 1e12, 0.3),
        (1.0, 0.5, 3.0),
        (1.0, 0.0, 3.0),
        (0.0, 1.0, 0.3),
        (0.0, 0.0, 0.3),
        (None, 1.0, 0.3),
        (1.0, None, 0.3),
        (None, None, 0.3),
        (5e-324, 1e308, 0.3),
        (1e308, 5e-324, 3.0),
    ],
)
def test_roofline(t_min: float | None, runtime: float | None, expected: float) -> None:
    assert roofline_reward(True, t_min, runtime) == pytest.approx(expected, abs=1e-9)
    assert roofline_reward(False, t_min, runtime) == 0.0


@pytest.mark.parametrize(
    ("t_min", "runtime"), [(NAN, 1.0), (1.0, NAN), (-1.0, 1.0), (1.0, -1.0), (INF, 1.0), (1.0, INF)]
)
def test_roofline_that_is_no_measurement(t_min: float, runtime: float) -> None:
    with pytest.raises(ValueError, match="not a time"):
        roofline_reward(True, t_min, runtime)


def test_always_finite_and_in_range() -> None:
    low, high = REWARD_RANGE
    values = [0.0, 5e-324, 1e-9, 0.5, 1.0, 3.0, 1e9, 1.7e308]
    rewards = [speedup_reward(True, value) for value in [*values, INF, None]]
    rewards += [roofline_reward(True, a, b) for a, b in itertools.product(values, values)]
    assert all(math.isfinite(r) and low <= r <= high for r in rewards)
    assert max(rewards) == high


def test_faster_is_never_worth_less() -> None:
    rewards = [speedup_reward(True, 1.07**n) for n in range(-60, 60)]
    assert rewards == sorted(rewards)


def passed(speedup: float | None = None, t_min: float | None = None) -> Passed:
    timing = speedup and Timing(
        runtime_ms=2.0 / speedup, ref_runtime_ms=2.0, speedup=speedup, low=1.0, high=9.0, samples=9, clock="wall"
    )
    roofline = t_min and Roofline(bound="memory", arithmetic_intensity=1.0, t_min_ms=t_min)
    return Passed(timing=timing or None, roofline=roofline or None)


def test_passed() -> None:
    assert reward(passed(), "speedup") == 0.3
    assert reward(passed(2.0, 0.5), "speedup") == pytest.approx(1.3)
    assert reward(passed(2.0, 0.5), "roofline") == pytest.approx(1.65)
    assert reward(passed(2.0), "roofline") == 0.3
    assert reward(passed(None, 0.5), "roofline") == 0.3


@pytest.mark.parametrize(
    "outcome",
    [
        Rejected(rule="import", message=""),
        BuildFailed(message=""),
        Raised(stage="timing", message=""),
        Crashed(stage="correctness", signal="SIGSEGV"),
        TimedOut(stage="compile", seconds=1.0),
        OutOfMemory(stage="correctness", message=""),
        WrongOutput(message=""),
        Infrastructure(message=""),
    ],
    ids=lambda outcome: outcome.kind,
)
def test_all_else_is_zero(outcome: Infrastructure) -> None:
    assert reward(outcome, "speedup") == 0.0
    assert reward(outcome, "roofline") == 0.0
