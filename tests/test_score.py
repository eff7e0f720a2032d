"""Scores: the figures themselves, from files in KernelBench's formats, and beside what its own analysis says.

With KERNELBENCH_CHECKOUT, a checkout of KernelBench, its analysis runs on files of ours; it needs pydra-config and
tabulate.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_env.toolkit import baselines, passes, sources
from kernel_env.toolkit.attempt import Attempt
from kernel_env.toolkit.baselines import BaselineError
from kernel_env.toolkit.measures import bootstrap, fast_p, geometric_mean, pass_at_k, wilson
from kernel_env.toolkit.results import Results, ResultsError
from kernel_env.toolkit.score import MEASURED, MEASURED_COMPILED, score

from .commands import invoke

GOLDEN = Path(__file__).with_name("golden")
RESULTS = GOLDEN / "run" / "eval_results.json"
EAGER, COMPILED = sorted((GOLDEN / "timing").glob("*.json"))
CHECKOUT = os.environ.get("KERNELBENCH_CHECKOUT", "")
PS = [0.0, 0.5, 0.8, 1.0, 1.5, 2.0]

# KernelBench's package without what its __init__ imports, none of which the analysis uses.
UPSTREAM = """
import json, runpy, sys, types
checkout, runs, baseline = sys.argv[1:]
package = types.ModuleType("kernelbench")
package.__path__ = [checkout + "/src/kernelbench"]
sys.modules["kernelbench"] = package
script = runpy.run_path(checkout + "/scripts/benchmark_eval_analysis.py", run_name="analysis")
found = script["analyze_greedy_eval"]("run", "any", "any", 1, baseline_file=baseline, eval_results_dir=runs)
print("RESULT", json.dumps(found))
"""


def scores(*arguments: str) -> list[dict[str, Any]]:
    done = invoke("score", str(RESULTS), "--level", "1", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_kernelbench_files_give_these_scores() -> None:
    eager, compiled = scores("--baseline", str(GOLDEN / "timing"), "--k", "1,2")
    assert (eager["baseline"], compiled["baseline"]) == ("torch", "torch_compile_inductor_default")
    assert (eager["tasks"], eager["attempted"], eager["samples"]) == (5, 4, 8)
    assert eager["compiled"]["value"] == 4 / 5
    assert eager["correct"]["value"] == 3 / 5
    assert [eager["fast"][str(p)]["value"] for p in PS] == [3 / 5, 2 / 5, 2 / 5, 2 / 5, 2 / 5, 0.0]
    assert [compiled["fast"][str(p)]["value"] for p in PS] == [3 / 5, 2 / 5, 1 / 5, 0.0, 0.0, 0.0]
    assert eager["geometric_mean"]["value"] == pytest.approx((2.0 * 0.5 * 1.6) ** (1 / 3))
    assert eager["geometric_mean_faster"]["value"] == pytest.approx(math.sqrt(2.0 * 1.6))
    assert eager["median"]["value"] == pytest.approx(1.6)
    assert eager["pass_at"]["1"]["value"] == pytest.approx((1 + 0.5 + 0.5 + 1) / 4)
    assert eager["pass_at"]["2"]["value"] == 1.0
    assert eager["fast_1_at"]["2"]["value"] == 3 / 4
    for figure in (eager["correct"], eager["fast"]["1.0"], eager["geometric_mean"], eager["pass_at"]["1"]):
        assert figure["low"] < figure["value"] < figure["high"]

    (best,) = scores("--baseline", str(EAGER), "--samples", "best", "--attempted")
    assert best["correct"]["value"] == 1.0
    assert best["fast"]["1.5"]["value"] == 2 / 4
    (best,) = scores("--baseline", str(EAGER), "--samples", "best")
    assert best["median"]["value"] == pytest.approx(1.75)
    (every,) = scores("--baseline", str(EAGER), "--samples", "every", "--p", "1")
    assert every["correct"]["value"] == pytest.approx((1 + 0.5 + 0.5 + 1) / 5)
    assert every["fast"]["1.0"]["value"] == pytest.approx((0.5 + 0 + 0.5 + 1) / 5)


def test_the_table_says_what_its_figures_are() -> None:
    shown = invoke("score", str(RESULTS), "--level", "1", "--baseline", str(EAGER))
    assert shown.returncode == 0
    assert "fast_1.5" in shown.stdout
    assert "4 of 5" in shown.stdout
    assert "0.600 [0.231, 0.882]" in shown.stdout
    for arguments in ((), ("--level", "2"), ("--level", "1", "--p", "x"), ("--level", "1", "--samples", "some")):
        refused = invoke("score", str(RESULTS), *arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), arguments


@pytest.mark.skipif(not CHECKOUT, reason="KERNELBENCH_CHECKOUT names no checkout of KernelBench")
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("pydra", "tabulate"))), reason="pydra-config or tabulate is missing"
)
@pytest.mark.parametrize("own", [False, True])
def test_kernelbench_s_analysis_reads_our_files_and_says_the_same(tmp_path: Path, own: bool) -> None:
    file = RESULTS
    if own:
        file = tmp_path / "run" / "eval_results.json"
        ours = Results(file, 1)
        for attempt in sources.read(RESULTS, 1).attempts:
            ours.put(replace(attempt, task_id=f"level1/{attempt.problem}_Any", stage=attempt.stage))
        ours.save()
        passes.write(file, passes.table(ours.attempts()))
    command = [sys.executable, "-c", UPSTREAM, CHECKOUT, str(file.parent.parent), str(EAGER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.rpartition("RESULT ")[2])
    ours_found = score(sources.read(file, 1).attempts, 1, baselines.read(EAGER)[0], "first", PS, [1], 5)
    assert theirs["fast_p"] == {str(p): pytest.approx(ours_found.fast[p].value) for p in PS}
    assert ours_found.geometric_mean is not None
    assert theirs["geo_mean_speedup"] == pytest.approx(ours_found.geometric_mean.value)
    assert (theirs["correct_count"], theirs["compiled_count"]) == (3, 4)
    assert ("pass_at_k" in theirs) is own


def attempt(problem: int, speedup: float | None, number: int = 0, **fields: Any) -> Attempt:
    runtime = None if speedup is None else 1.0 / speedup
    found = Attempt(1, problem, number, True, speedup is not None, runtime_ms=runtime, speedup=speedup)
    return replace(found, **fields)


def test_times_measured_beside_the_kernels_are_baselines_too() -> None:
    run_ = [attempt(1, 2.0, compiled_runtime_ms=0.5), attempt(2, None), attempt(3, None, correct=True)]
    eager = score(run_, 1, MEASURED, "first", [1.0], [1])
    assert (eager.tasks, eager.fast[1.0].value, eager.untimed) == (3, 1 / 3, 1)
    assert eager.correct.value == 2 / 3
    compiled = score(run_, 1, MEASURED_COMPILED, "first", [0.5, 1.0], [1])
    assert [compiled.fast[p].value for p in (0.5, 1.0)] == [1 / 3, 0.0]
    assert score(run_, 2, MEASURED, "first", [1.0], [1]).tasks == 0


def test_a_baseline_of_fewer_tasks_than_the_run_has() -> None:
    """What was measured beside the kernels has times of them all, the file of one."""
    attempts = [attempt(1, 2.0), attempt(2, 3.0), attempt(3, None)]
    found = score(attempts, 1, MEASURED, "first", [1.0], [1], tasks=1)
    assert (found.tasks, found.attempted) == (3, 3)
    assert found.compiled.value == 1.0
    assert found.fast[1.0].value == pytest.approx(2 / 3)


def test_figures() -> None:
    assert fast_p([2.0, 1.0, None, 0.5], 8, 1.0) == 1 / 8
    assert fast_p([], 0, 1.0) == 0.0
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(10, 3, 5) == pytest.approx(1 - 21 / 252)
    assert pass_at_k(2, 2, 2) == 1.0
    for wrong in ((1, 0, 2), (1, 2, 1), (1, 0, 0)):
        with pytest.raises(ValueError, match="not defined"):
            pass_at_k(*wrong)
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
    known = wilson(45, 100)  # Newcombe 1998 gives 0.3561 and 0.5476
    assert (known.value, known.low, known.high) == (
        0.45,
        pytest.approx(0.3561, abs=1e-4),
        pytest.approx(0.5476, abs=1e-4),
    )
    none = wilson(0, 10)
    assert none.low == 0.0
    assert none.high == pytest.approx(0.2775, abs=1e-4)
    assert bootstrap([], statistics.median) is None
    one = bootstrap([3.0], statistics.median)
    assert one is not None
    assert (one.value, one.low) == (3.0, None)
    spread = bootstrap([1.0, 2.0, 3.0, 4.0, 100.0], statistics.median)
    assert spread == bootstrap([1.0, 2.0, 3.0, 4.0, 100.0], statistics.median)
    assert spread is not None
    assert spread.low is not None
    assert spread.low < 3.0 == spread.value


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "no map"),
        ('{"level1": {"19_ReLU.py": {"mean": 0}}}', "mean above 0"),
        ('{"level1": {"19_ReLU.py": {"mean": 1}, "19_ReLU": {"mean": 1}}}', "two times of problem 19"),
        ('{"level1": {"ReLU.py": {"mean": 1}}}', "no problem"),
    ],
)
def test_baseline_files_that_are_none_are_refused(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "baseline_time_x.json"
    file.write_text(content)
    with pytest.raises(BaselineError, match=told):
        baselines.read(file)


def test_a_results_file_must_say_its_level() -> None:
    with pytest.raises(ResultsError, match="--level"):
        sources.read(RESULTS)
