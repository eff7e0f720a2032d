"""The benchmarks run as documented and say what they promise; their figures are not judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchmarks import agreement, honest_kernels, repeatability, soak, upstream
from benchmarks.alone import alone
from benchmarks.busy import busy
from benchmarks.cases import KERNELBENCH, Case, cases
from benchmarks.evaluations import Result
from benchmarks.mix import SHARES, Submission, spoiled
from benchmarks.tables import digits, percent, table
from kernel_env.server.checks import check
from kernel_env.server.outcome import Device, TaskSource

from .kernels import FOLDER, kernels
from .processes import alive
from .submissions import TASK

ROOT = Path(__file__).parents[1]
SERVER_OVERHEAD = "-m", "benchmarks.server_overhead"


def command(name: str, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A benchmark without the settings of whoever runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL")}
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options],
        cwd=ROOT,
        env={**inherited, **settings},
        capture_output=True,
        text=True,
        timeout=240,
    )


LONG = [pytest.param(server, marks=pytest.mark.long) for server in ("unchecked", "stock")]


@pytest.mark.parametrize("server", ["mock", *LONG])
def test_server_overhead(server: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = "--servers", server, "--sessions", "1,3", "--seconds", "0.5", "--json", str(report)
    done = subprocess.run(
        [sys.executable, *SERVER_OVERHEAD, *options], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "server ms/step" in done.stdout
    (table,) = json.loads(report.read_text())["servers"]
    assert [(row["sessions"], row["loop"]) for row in table["rows"]] == [
        (1, "closed"),
        (3, "closed"),
        (3, "1 a s"),
    ]
    for row in table["rows"]:
        assert 0.0 < row["p50_ms"] <= row["p99_ms"]
        assert row["steps"] >= row["sessions"]
        assert row["reply_bytes"] > 1000
    assert table["rss_bytes"] > 0


def test_a_bad_option_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, *SERVER_OVERHEAD, "--servers", "mine"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "use some of mock, unchecked, stock" in done.stderr


def test_repeatability(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = (
        "--evaluator",
        "mock",
        "--evaluations",
        "2",
        "--busy",
        "1",
        "--kernels",
        "affine",
        "--json",
        str(path),
    )
    done = command("repeatability", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| busy:" in done.stdout
    report = json.loads(path.read_text())
    assert report["device"]["kind"] == "mock"
    for name in ("quiet", "busy"):
        assert [one["case"] for one in report["summaries"][name]] == [
            "affine 8 KB",
            "affine 24 MB",
            "affine 128 MB",
        ]
        assert all(one["spread"] == 0.0 and one["passed"] == 2 for one in report["summaries"][name])
        assert len(report["evaluations"][name]) == 6


def test_agreement_with_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = "--evaluator", "mock", "--evaluations", "1", "--kernels", "8 KB", "--json", str(path)
    done = command("agreement", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (one,) = json.loads(path.read_text())["summaries"]
    assert one["ratio"] == pytest.approx(one["runtime_ms"] / one["bare_ms"])


def test_honest_kernels(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "23_Softmax.py").write_text(TASK)
    options = "--evaluator", "mock", "--kernels", "level1/23_Softmax", "--json", str(path)
    done = command("honest_kernels", *options, KERNELBENCH_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 kernels: 2 passed" in done.stdout
    report = json.loads(path.read_text())
    assert sorted(one["language"] for one in report["evaluations"]) == ["cuda", "triton"]
    refused = command("honest_kernels", "--readme", str(path))
    assert refused.returncode == 1
    assert "the table is of a GPU" in refused.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("repeatability", "--evaluations", "0"), "whole number from 1 to 1000"),
        (("repeatability", "--evaluator", "mock", "--kernels", "nothing"), "no kernel's name holds nothing"),
        (("agreement", "--evaluator", "tpu"), "invalid choice"),
        (("agreement", "--json", "/no/such/folder/x.json"), "there is no such folder"),
        (("honest_kernels", "--evaluator", "mock"), "KERNELBENCH_DIR is not set"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_explained(options: tuple[str, ...], text: str) -> None:
    done = command(*options)
    assert done.returncode != 0
    assert text in done.stderr


def evaluated(speedup: float, runtime_ms: float, low: float, high: float, case: str = "a") -> Result:
    return Result(
        case=case,
        language="triton",
        verdict="passed",
        runtime_ms=runtime_ms,
        speedup=speedup,
        low=low,
        high=high,
        samples=100,
        clock="events",
        launch_bound=False,
        seconds=3.0,
    )


RESULTS = [
    evaluated(2.00, 0.050, 1.99, 2.01),
    evaluated(2.02, 0.051, 2.015, 2.03),
    evaluated(1.98, 0.049, 1.97, 2.0),
    Result("a", "triton", "timed_out", "too slow", seconds=9.0),
    evaluated(1.5, 0.004, 1.4, 1.6, case="b"),
]


def test_repeatability_sums_up_by_kernel() -> None:
    first, second = repeatability.summarize(RESULTS)
    assert (first.case, first.evaluations, first.passed, first.clock, first.launch_bound) == (
        "a",
        4,
        3,
        "events",
        False,
    )
    assert first.speedup == 2.0
    assert first.spread == pytest.approx(0.02)
    assert first.runtime_spread == pytest.approx(0.04)
    assert first.deviation == pytest.approx(0.01)
    assert first.claim == pytest.approx(0.01, rel=0.02)
    assert first.held == pytest.approx(2 / 3)
    assert (second.spread, second.deviation, second.held) == (0.0, None, 1.0)


def test_repeatability_of_what_never_passed() -> None:
    (only,) = repeatability.summarize(RESULTS[3:4])
    assert (only.passed, only.speedup, only.seconds) == (0, None, 9.0)
    assert "0/1" in repeatability.report([only])


def test_repeatability_marks_what_misses_its_target() -> None:
    assert [repeatability.target(ms, loud) for loud in (False, True) for ms in (0.004, 0.03)] == [
        0.03,
        0.01,
        0.05,
        0.02,
    ]
    summaries = repeatability.summarize(RESULTS)
    _, first, second = repeatability.report(summaries, repeatability.summarize(RESULTS[:2])).splitlines()
    quiet, _, loud = first.partition("|")
    assert " over " in quiet
    assert " over " not in loud
    assert " over " not in second


def test_agreement_sums_up_and_marks_what_misses_its_target() -> None:
    pairs = [
        agreement.Pair(result, bare_ms) for result, bare_ms in zip(RESULTS[:3], (0.047, 0.049, None), strict=True)
    ]
    pairs += [agreement.Pair(RESULTS[4], 0.005), agreement.Pair(RESULTS[3], None, "broken")]
    first, second = agreement.summarize(pairs)
    assert first.runtime_ms == 0.05
    assert first.bare_ms == 0.048
    assert first.ratio == pytest.approx(0.05 / 0.048)
    assert first.off
    assert second.ratio == pytest.approx(0.8)
    assert second.target is None
    assert not second.off
    _, line, other = agreement.report([first, second]).splitlines()
    assert " over " in line
    assert " over " not in other


def test_speedups_go_into_the_readme(tmp_path: Path) -> None:
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, speedup in zip(paths, (1.234, 11.26), strict=True):
        rows = [
            {"case": "level1/23_Softmax", "language": "cuda", "speedup": speedup},
            {"case": "level1/19_ReLU", "language": "triton", "speedup": 1.0},
            {"case": "level1/40_LayerNorm", "language": "triton", "speedup": None},
        ]
        path.write_text(json.dumps({"device": {"kind": "cuda", "name": "NVIDIA H200"}, "evaluations": rows}))
    readme = (FOLDER / "README.md").read_text()
    changed = honest_kernels.rewritten(readme, honest_kernels.speedups(paths))
    before, after = honest_kernels.ROW.findall(readme), honest_kernels.ROW.findall(changed)
    assert [row[:2] for row in before] == [row[:2] for row in after]
    assert len(after) == len({kernel.task_id for kernel in kernels()})
    differing = {new[0]: new[2:] for old, new in zip(before, after, strict=True) if old != new}
    old = {row[0]: row[2:] for row in before}
    assert differing.pop("level1/23_Softmax") == (old["level1/23_Softmax"][0], "1.23–11.3")
    assert differing.pop("level1/19_ReLU") == ("1.00", old["level1/19_ReLU"][1])
    assert not differing
    assert honest_kernels.rewritten(readme, {}) == readme


def test_results_of_two_devices_are_no_range(tmp_path: Path) -> None:
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, name in zip(paths, ("NVIDIA H200", "NVIDIA A100"), strict=True):
        path.write_text(json.dumps({"device": {"kind": "cuda", "name": name}, "evaluations": []}))
    with pytest.raises(honest_kernels.ResultsError, match="A100, NVIDIA H200"):
        honest_kernels.speedups(paths)


def test_cases_fit_the_device(tmp_path: Path) -> None:
    for task_id in KERNELBENCH:
        path = tmp_path / f"{task_id}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TASK)
    gpu, cpu = Device(kind="cuda", name="a GPU"), Device(kind="cpu", name="a CPU")
    every = cases(gpu, tmp_path, [])
    assert len(every) == 10
    assert len({case.task.hash for case in every if case.task.id.startswith("user/")}) == 4
    assert [case.name for case in cases(gpu, None, [])] == [c.name for c in every if c.task.id.startswith("user/")]
    assert [case.name for case in cases(gpu, tmp_path, ["8 KB", "level1/89"])] == [
        "affine 8 KB",
        "level1/89_cumsum",
    ]
    assert [case.language for case in cases(cpu, tmp_path, [])] == ["cpp"]


def test_busy_processes_end_with_their_block() -> None:
    with pytest.raises(RuntimeError, match="stopped"), busy(2) as pids:  # noqa: PT012
        assert all(alive(pid) for pid in pids)
        raise RuntimeError("stopped")
    assert not any(alive(pid) for pid in pids)


def test_numbers_in_tables() -> None:
    shown = [digits(value) for value in (None, 0.0, 0.0041234, 1.98765, 37.5, 12345.6)]
    assert shown == ["-", "0.000", "0.004123", "1.988", "37.50", "12346"]
    assert percent(0.01234) == "1.23"
    assert table(["a", "bb"], [["ccc", "d"]]) == "a    bb\nccc   d"


def test_throughput(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = "--evaluator", "mock", "--sessions", "3", "--seconds", "0.5", "--json", str(report)
    done = command("throughput", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    idle, right, mix = json.loads(report.read_text())["loads"]
    assert [load["sessions"] for load in (idle, right, mix)] == [1, 3, 3]
    assert len(idle["steps"]) == 1
    assert {step["stage"] for step in right["steps"]} == {"passed"}
    for step in mix["steps"]:
        assert (step["stage"] == "format") == (step["submission"]["kind"] == "refused")
        assert step["durations"].keys() >= {"queue", "checks"}


def test_every_honest_kernel_can_be_spoiled() -> None:
    for kernel in kernels():
        honest = Submission(kernel.task_id, kernel.language, "right", kernel.code)
        texts = {kind: spoiled(honest, kind, Random(0)).code for kind in SHARES}
        assert len(set(texts.values())) == len(SHARES), kernel
        found = {kind for kind, text in texts.items() if check(text, kernel.language, 1 << 20)}
        assert found == {"refused"}, kernel


UPSTREAM = """
from types import SimpleNamespace


def eval_kernel_against_ref(task, submission, measure_performance, num_correct_trials, num_perf_trials, **options):
    assert measure_performance and (num_correct_trials, num_perf_trials) == (5, 100)
    right = "Model" in task and "ModelNew" in submission and options["backend"] == "triton"
    return SimpleNamespace(compiled=True, correctness=right, runtime=0.25)
"""


async def test_a_checkout_of_kernelbench_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import litellm, dotenv\n")
    (package / "eval.py").write_text(UPSTREAM)
    task = TaskSource(id="user/relu", source=TASK, hash="0")
    found, _ = await alone(
        "upstream_alone", Case("relu", task, "triton", "class ModelNew: pass"), str(tmp_path), "triton"
    )
    assert found is not None
    assert (found["compiled"], found["correct"], found["runtime_ms"]) == (True, True, 0.25)
    (package / "eval.py").write_text("raise ValueError('an old checkout')\n")
    found, message = await alone("upstream_alone", Case("relu", task, "triton", ""), str(tmp_path), "triton")
    assert found is None
    assert "an old checkout" in message


def test_upstream_is_told_beside_ours() -> None:
    pairs = [
        upstream.Pair(RESULTS[0], "passed", 0.05, 60.0, 80.0),
        upstream.Pair(RESULTS[1], "failed: no nvcc", upstream_s=10.0),
    ]
    _, first, second, _, middle = upstream.report(pairs).splitlines()
    assert first.split()[-2:] == ["60.0", f"{80.0 / RESULTS[0].seconds:.1f}"]
    assert "failed" in second
    assert "no nvcc" not in second
    assert middle.startswith("median ratio")
    assert upstream.report([]) == "nothing was measured"


def test_a_soak_says_what_a_server_holds_between_rounds(tmp_path: Path) -> None:
    report = tmp_path / "rounds.json"
    options = "--evaluator", "mock", "--episodes", "24", "--rounds", "3", "--sessions", "4"
    done = command("soak", *options, "--settle", "0.2", "--json", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = [soak.Held(**one) for one in json.loads(report.read_text())]
    assert [one.episodes for one in rounds] == [8, 16, 24]
    assert rounds[-1].processes == 1
    assert rounds[-1].descriptors == rounds[1].descriptors
    assert soak.grown(rounds) == []
    leaky = replace(rounds[-1], descriptors=99, memory_bytes=2 * rounds[-1].memory_bytes + soak.SLACK_BYTES)
    assert soak.grown([*rounds[:2], leaky]) == ["descriptors", "memory"]
    assert soak.grown(rounds[:2]) == []


@pytest.mark.long
def test_growth_varies_one_thing_at_a_time(tmp_path: Path) -> None:
    report, picture = tmp_path / "points.json", tmp_path / "growth.png"
    options = "--evaluator", "mock", "--sessions", "2", "--cores", "1", "--gpus", "1", "--seconds", "0.5"
    done = command("growth", *options, "--json", str(report), "--plot", str(picture))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    cores = len(os.sched_getaffinity(0))
    assert [tuple(one["setting"].values()) for one in found] == [
        ("sessions", 2, cores, 1),
        ("cores", 64, 1, 1),
    ]
    assert all(one["steps"] >= one["setting"]["sessions"] and one["a_minute"] > 0 for one in found)
    assert picture.read_bytes().startswith(b"\x89PNG")
