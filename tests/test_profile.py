"""A profile: what follows from a stored record, how it is told, and who gets one."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernel_env.server.activity import MARK as MARK_NAME
from kernel_env.server.activity import inside, launches, report, spilled
from kernel_env.server.feedback import feedback
from kernel_env.server.observation import numbers
from kernel_env.server.outcome import Passed, Timing
from kernel_env.server.peaks import PEAKS
from kernel_env.server.profile import TEXT_CAP, TOLD, Inside, Launched, Work, profile, short, text
from kernel_env.server.provenance import Record
from kernel_env.toolkit.counters import CountersError, Subject, count, parse

from .commands import invoke
from .conftest import Launch
from .serving import CODE

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


def recorded(
    events: list[tuple[str, int, int]], calls: int = 2, spills: dict[tuple[str, int], int] | None = None
) -> Record:
    made = [Event(*event) for event in events]
    told: dict[str, Any] = report(made, calls, lambda name: "triton", 2 * calls)
    told["inside"] = inside(made, calls, lambda name: "triton", spilled(launches(TRACE), spills or {}))
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
    softmax, scale = recorded(RECORDED, spills={("softmax", 40): 3, ("softmax", 48): 7}).inside.kernels  # type: ignore[union-attr]
    assert (softmax.spills, scale.spills) == (7, None), "of the variant that ran"
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


NCU = """==PROF== Connected to process 4242 (/usr/bin/python3)
==PROF== Profiling "row_softmax" - 0: 0%....50%....100% - 3 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",\
"CC","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed",\
"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",\
"lts__t_sector_hit_rate.pct","sm__throughput.avg.pct_of_peak_sustained_elapsed",\
"sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","byte","%","%","ns","%","%","%"
"0","4242","python3","127.0.0.1","row_softmax","1","7","(256, 1, 1)","(8192, 1, 1)","0","9.0",\
"268,435,456","80","81.5","100,000","50","30","75"
"1","4242","python3","127.0.0.1","twice","1","7","(128, 1, 1)","(8192, 1, 1)","0","9.0","1,000","20","20","1,000",\
"50","10","40"
"2","4242","python3","127.0.0.1","twice","1","7","(128, 1, 1)","(8192, 1, 1)","0","9.0","2,000","40","40","3,000",\
"n/a","10","40"
"""
FAKE_NCU = """#!/bin/sh
for word in "$@"; do
    [ "$before" = --log-file ] && log=$word
    before=$word
done
printf '%s\\n' "$SAY" > "$log"
exit 1
"""


def test_counters_are_weighted_by_time() -> None:
    softmax, twice = parse(NCU.splitlines())
    assert (softmax.name, softmax.launches, softmax.ms, softmax.bytes) == ("row_softmax", 1, 0.1, 268_435_456.0)
    assert softmax.gb_s == pytest.approx(2684.35, rel=1e-3)
    assert softmax.shares == {"memory": 0.815, "dram": 0.8, "compute": 0.3, "occupancy": 0.75, "l2_hits": 0.5}
    assert (twice.launches, twice.ms, twice.bytes) == (2, 0.004, 3000.0)
    assert twice.shares["dram"] == pytest.approx((20 * 1 + 40 * 3) / 4 / 100)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==WARNING== a\n==ERROR== The application returned an error code (1).\n==WARNING== b", "error code (1)"),
        ("", "it said nothing"),
    ],
)
def test_why_there_are_no_counters(
    said: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ncu"
    fake.write_text(FAKE_NCU)
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SAY", said)
    with pytest.raises(CountersError, match=re.escape(reason)) as error:
        count(Subject("user/task", "", "", "fp32"))
    assert "\n" not in str(error.value)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(CountersError, match="not on PATH"):
        count(Subject("user/task", "", "", "fp32"))


def test_the_command_shows_a_profile_and_says_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(CODE)
    common = ("profile", str(file), "--task", "level1/e01_RowSoftmax")
    shown = invoke(*common, "--evaluator", "mock", "--counters")
    assert shown.returncode == 0, shown.stderr
    for part in ("made up", "double", "100%", "the mock evaluator runs nothing"):
        assert part in shown.stdout
    told = json.loads(invoke(*common, "--evaluator", "mock", "--json").stdout)
    assert told["profile"]["kernels"][0]["name"] == "double"
    assert (told["counters"], "--counters" in told["counters_note"]) == ([], True)
    refused = invoke(*common, "--evaluator", "cpu")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "profiles need a CUDA device" in refused.stderr
    file.write_text("x = 1\n")
    assert invoke(*common, "--evaluator", "mock").returncode == 1


def test_a_server_tells_it_where_it_is_asked_to(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(CODE)
    for setting, told in (("true", True), ("false", False)):
        server = launch(KERNEL_ENV_PROFILE=setting)
        with server.connect() as wire:
            wire.reset(task_id="level1/e01_RowSoftmax")
            observation = wire.step(CODE)["observation"]
        assert bool(observation["profile"]) == told
        assert ("Profile of one call: 1 launch" in observation["feedback"]) == told
        if not told:
            asked = invoke("profile", str(file), "--task", "level1/e01_RowSoftmax", "--url", server.url)
            assert asked.returncode == 2
            assert "KERNEL_ENV_PROFILE=true" in asked.stderr
