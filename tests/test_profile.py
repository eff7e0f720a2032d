"""A profile: what follows from a stored record, how it is told, and who gets one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from kernel_env.server.activity import MARK as MARK_NAME
from kernel_env.server.activity import inside, launches, report
from kernel_env.server.feedback import feedback
from kernel_env.server.observation import numbers
from kernel_env.server.outcome import Passed, Timing
from kernel_env.server.peaks import PEAKS
from kernel_env.server.profile import TEXT_CAP, TOLD, Inside, Launched, Work, profile, short, text
from kernel_env.server.provenance import Record

MARK = f"at::cuda::(anonymous namespace)::{MARK_NAME}long)"
FLUSH = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)"
COPY = "Memcpy DtoD (Device -> Device)"
TIMING = Timing(
    runtime_ms=2.0, ref_runtime_ms=4.0, speedup=2.0, low=1.9, high=2.1, samples=64, clock="events", host_ms=0.1
)

# Two calls as CUPTI sees them, in microseconds: marks round the record and round each call, a flush before each
# and a copy of the output behind it.
RECORDED = [
    (MARK, 0, 50_000),
    (FLUSH, 60_000, 100),
    (MARK, 60_200, 1),
    ("softmax", 60_210, 1500),
    ("void scale<4>(float*)", 61_720, 500),
    (MARK, 62_300, 1),
    (COPY, 62_310, 300),
    (FLUSH, 63_000, 100),
    (MARK, 63_200, 1),
    ("softmax", 63_210, 1700),
    ("void scale<4>(float*)", 64_000, 500),
    (MARK, 65_000, 1),
    (COPY, 65_010, 300),
    (MARK, 66_000, 1),
]
TRACE = json.loads(
    """[
    {"ph": "X", "cat": "kernel", "name": "softmax", "dur": 1500.2, "args": {"registers per thread": 40,
     "shared memory": 2048, "blocks per SM": 31.0, "warps per SM": 248.0, "grid": [4096, 1, 1],
     "block": [256, 1, 1], "est. achieved occupancy %": 75}},
    {"ph": "X", "cat": "kernel", "name": "softmax", "dur": 1700.9, "args": {"registers per thread": 48,
     "shared memory": 4096, "grid": [8192, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 62}},
    {"ph": "X", "cat": "kernel", "name": "_Z5scaleILi4EEvPf", "dur": 500, "args": {"grid": [9, 1, 1]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 9, "args": {"cbid": 211}},
    {"ph": "M", "name": "process_name", "args": {"name": "python"}}
    ]"""
)


@dataclass(frozen=True)
class Event:
    text: str
    start: int
    length: int

    def name(self) -> str:
        return self.text

    def start_ns(self) -> int:
        return self.start * 1000

    def end_ns(self) -> int:
        return (self.start + self.length) * 1000

    def duration_ns(self) -> int:
        return self.length * 1000


def recorded(events: list[tuple[str, int, int]], calls: int = 2) -> Record:
    made = [Event(*event) for event in events]
    told: dict[str, Any] = report(made, calls, lambda name: "triton", 2 * calls)
    told["inside"] = inside(made, calls, lambda name: "triton", launches(TRACE))
    return Record.model_validate(told)


def test_what_lies_between_the_calls_is_not_theirs() -> None:
    record = recorded(RECORDED)
    assert record.complete
    assert record.inside is not None
    assert [(k.name, k.launches, k.ms) for k in record.inside.kernels] == [
        ("softmax", 2, pytest.approx(3.2)),
        ("void scale<4>(float*)", 2, pytest.approx(1.0)),
    ]
    assert record.inside.busy_ms == pytest.approx(3.7), "what runs side by side is busy once"
    assert {kernel.name for kernel in record.kernels} >= {FLUSH, COPY}


def test_a_kernel_s_shape_is_that_of_its_longest_launch() -> None:
    softmax, scale = recorded(RECORDED).inside.kernels  # type: ignore[union-attr]
    assert (softmax.grid, softmax.block, softmax.registers) == ((8192, 1, 1), (256, 1, 1), 48)
    assert (softmax.shared_bytes, softmax.occupancy) == (4096, 0.62)
    assert (scale.grid, scale.registers, scale.occupancy) == (None, None, None)


def test_marks_of_the_submission_s_own_leave_no_profile() -> None:
    record = recorded([*RECORDED, (MARK, 60_900, 5)])
    assert record.complete
    assert record.inside is None


def test_what_a_call_takes_and_achieves() -> None:
    record = recorded(RECORDED)
    assert record.inside is not None
    found = profile(record.inside, record.calls, TIMING, Work(494_700_000_000, 4_800_000_000), PEAKS["H200"])
    softmax, scale = found.kernels
    assert (softmax.launches, softmax.ms, found.launches) == (1.0, pytest.approx(1.6), 2.0)
    assert (softmax.share, scale.share) == (pytest.approx(3.2 / 4.2), pytest.approx(1.0 / 4.2))
    assert found.busy_ms == pytest.approx(1.85)
    assert (found.gb_s, found.bandwidth_share) == (pytest.approx(2400.0), pytest.approx(0.5))
    assert (found.tflop_s, found.compute_share) == (pytest.approx(247.35), pytest.approx(0.5))
    half = profile(record.inside, 2, TIMING, Work(494_700_000_000, 0, half=True), PEAKS["H200"])
    assert half.compute_share == pytest.approx(0.25)
    unknown = profile(record.inside, 2, TIMING, Work(1, 1), None)
    assert (unknown.bandwidth_share, unknown.compute_share) == (None, None)


def test_it_reaches_feedback_and_observation() -> None:
    record = recorded(RECORDED)
    assert record.inside is not None
    found = profile(record.inside, 2, TIMING, Work(0, 4_800_000_000), PEAKS["H200"])
    outcome = Passed(timing=TIMING, profile=found)
    told = feedback(outcome)
    for part in (
        "2 launches; the device is busy for 1.85 ms",
        "softmax: 1 launch, 1.6 ms (76%), grid 8192x1x1, block 256x1x1, 48 registers a thread, 4 KiB shared",
        "occupancy 62%",
        "2400 GB/s (50% of the device's peak).",
    ):
        assert part in told
    assert "TFLOP/s" not in told
    fields = numbers(outcome)["profile"]
    assert fields["kernels"][0]["registers"] == 48
    assert "grid" not in fields["kernels"][1]
    json.dumps(fields)
    assert "profile" not in numbers(Passed(timing=TIMING))


def test_it_is_short_and_safe_whatever_a_process_tells() -> None:
    kernels = [Launched(name="k" * 150 + str(i), origin="", launches=10**9, ms=1e9) for i in range(TOLD)]
    made = Inside(busy_ms=1e9, kernels=kernels, others=10**9, others_ms=1e9)
    told = text(profile(made, 1, TIMING, Work(), None))
    assert len(told) <= TEXT_CAP
    assert "further kernels" in told
    assert short("\x1b[31mred\nline") == "\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}line"
    for bad in ({"ms": float("nan")}, {"launches": -1}, {"occupancy": 2.0}, {"name": "n" * 201}, {"grid": [1]}):
        fields = {"name": "mine", "origin": "", "launches": 1, "ms": 1.0, **bad}
        with pytest.raises(ValueError, match=next(iter(bad))):
            Launched.model_validate(fields)
