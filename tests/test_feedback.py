"""Feedback: one text for each outcome, with its facts, capped."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_env.server.feedback import MESSAGE_CAP, feedback, trim
from kernel_env.server.outcome import (
    BuildFailed,
    Crashed,
    Infrastructure,
    Outcome,
    OutOfMemory,
    Passed,
    Raised,
    Rejected,
    Roofline,
    TimedOut,
    Timing,
    WrongOutput,
)


def timing(**changes: Any) -> Timing:
    facts: dict[str, Any] = {
        "runtime_ms": 0.125,
        "ref_runtime_ms": 0.25,
        "speedup": 2.0,
        "low": 1.96,
        "high": 2.04,
        "samples": 60,
        "clock": "events",
    }
    return Timing(**facts | changes)


CASES: dict[str, tuple[Outcome, tuple[str, ...]]] = {
    "foreign kernels": (Rejected(rule="provenance", message="sgemm"), ("when it ran (provenance)", "sgemm")),
    "rejected": (Rejected(rule="import", message="line 3: no"), ("Rejected", "(import)", "line 3: no")),
    "build": (BuildFailed(message="x.cu(7): error"), ("Did not build", "x.cu(7): error")),
    "raised": (Raised(stage="compile", message="NameError: a"), ("exception", "constructing", "NameError: a")),
    "raised later": (Raised(stage="timing", message="KeyError: 1"), ("timed runs", "KeyError: 1")),
    "signal": (Crashed(stage="correctness", signal="SIGSEGV"), ("SIGSEGV", "forward", "masks")),
    "rare signal": (Crashed(stage="timing", signal="SIGUSR1"), ("SIGUSR1", "timed runs")),
    "exit": (Crashed(stage="correctness", exit_code=0, message="bye"), ("exit code 0", "must not exit", "bye")),
    "unknown end": (Crashed(stage="compile"), ("process ended", "building")),
    "compile time": (TimedOut(stage="compile", seconds=240.0), ("240 s", "template")),
    "loop": (TimedOut(stage="correctness", seconds=0.5, message="trial 2"), ("0.5 s", "endless loop", "trial 2")),
    "slow": (TimedOut(stage="timing", seconds=120), ("120 s", "slower")),
    "memory": (OutOfMemory(stage="correctness", message="tried 80 GiB"), ("memory", "reference fits", "80 GiB")),
    "wrong": (WrongOutput(message="trial 1: 7 of 9 elements off", trial=1), ("not the reference's", "7 of 9")),
    "wrong when timed": (WrongOutput(message="m", stage="timing"), ("timed run", "anew")),
    "ours": (Infrastructure(message="judge died"), ("not the submission", "not use up a turn", "judge died")),
    "untimed": (Passed(note="Triton's interpreter"), ("Correct", "Not timed", "Triton's interpreter")),
    "launch-bound": (
        Passed(timing=timing(host_ms=0.4, ref_host_ms=0.3)),
        ("Launch-bound", "0.4 ms to launch", "0.125 ms"),
    ),
    "fast": (
        Passed(timing=timing()),
        (
            "Speedup 2x",
            "1.96 to 2.04",
            "0.125 ms against 0.25 ms",
            "CUDA events",
            "60 samples",
            "No roofline",
            "KERNEL_ENV_PEAKS",
        ),
    ),
    "slower": (Passed(timing=timing(speedup=0.5, low=0.4, high=0.6)), ("0.5x", "slower than the reference")),
    "even": (Passed(timing=timing(speedup=1.0, low=0.9, high=1.1)), ("cannot be told", "earns more")),
    "overruled": (Passed(timing=timing(clock="judge")), ("judge's own clock",)),
    "mock": (Passed(timing=timing(clock="mock")), ("fake",)),
    "roofline": (
        Passed(timing=timing(), roofline=Roofline(bound="memory", arithmetic_intensity=0.1, t_min_ms=0.1)),
        ("memory bandwidth", "0.1 ms", "80%"),
    ),
    "compute roofline": (
        Passed(
            timing=timing(runtime_ms=0.0),
            roofline=Roofline(bound="compute", arithmetic_intensity=90.0, t_min_ms=0.1),
        ),
        ("compute throughput", "0.1 ms."),
    ),
    "note on a timed one": (Passed(timing=timing(), note="the mode is strict"), ("Speedup", "the mode is strict")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_feedback(name: str) -> None:
    outcome, parts = CASES[name]
    text = feedback(outcome)
    for part in parts:
        assert part in text
    assert text == text.strip()


def test_fast_is_not_called_slow() -> None:
    text = feedback(Passed(timing=timing()))
    assert "slower" not in text
    assert "earns more" not in text


@pytest.mark.parametrize("kind", [Rejected(rule="r", message="x" * 90_000), BuildFailed(message="y" * 90_000)])
def test_long_messages_are_capped(kind: Outcome) -> None:
    text = feedback(kind)
    assert len(text) < MESSAGE_CAP + 200
    assert "characters cut" in text


def test_trim_keeps_short_text() -> None:
    assert trim("abc", 80) == "abc"
    assert trim("a" * 80, 80) == "a" * 80


@pytest.mark.parametrize("length", [81, 100, 199, 1000, 99_999, 100_000])
@pytest.mark.parametrize("limit", [80, 99, 500])
def test_trim_cuts_in_the_middle_and_counts(length: int, limit: int) -> None:
    text = "".join(chr(33 + i % 90) for i in range(length))
    cut = trim(text, limit)
    if length <= limit:
        assert cut == text
        return
    head, middle, tail = cut.split("\n")
    count = int(middle.split()[1])
    assert len(cut) <= limit
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + count + len(tail) == length


def test_trim_refuses_a_limit_too_small() -> None:
    with pytest.raises(ValueError, match="at least 80"):
        trim("abc", 10)
