"""`kernel-env eval-run` on directories in KernelBench's naming: against a server, and with its own evaluator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from kernel_env.server.languages import guess
from kernel_env.toolkit.attempt import Attempt
from kernel_env.toolkit.batch import LOST_IN_A_ROW, Unjudged, Work, judge
from kernel_env.toolkit.evaluators import EvaluatorError, Fault, Verdict
from kernel_env.toolkit.folder import FolderError, Sample, kernels, locked, results_files
from kernel_env.toolkit.problems import SelectionError, by_place, numbers, select
from kernel_env.toolkit.results import Results, ResultsError

from .commands import invoke
from .conftest import Launch
from .serving import CODE, scripted
from .test_cli import run

FOREIGN = {
    "sample_id": 0,
    "compiled": True,
    "correctness": False,
    "metadata": {"hardware": "NVIDIA H100", "device": "cuda:0", "runtime_error": "boom"},
    "runtime": -1.0,
    "runtime_stats": {},
}


def write(folder: Path, problem: int, sample: int, code: str, level: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / Sample(level, problem, sample).file_name
    file.write_text(code)
    return file


def results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads((folder / "eval_results.json").read_text())
    return content


def test_a_server_judges_what_has_no_result_and_its_faults_are_no_verdicts(launch: Launch, tmp_path: Path) -> None:
    server = launch(scripted=True)
    write(tmp_path, 1, 0, scripted(speedup=2.0))
    write(tmp_path, 1, 1, "```python\nx = 1\n```")
    write(tmp_path, 2, 0, scripted(fail=True))
    write(tmp_path, 3, 0, "never read")
    write(tmp_path, 99, 0, CODE)
    (tmp_path / "notes.txt").write_text("not a kernel")
    (tmp_path / "eval_results.json").write_text(json.dumps({"3": [FOREIGN]}))
    done = run("eval-run", str(tmp_path), "--base-url", server.url, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["judged"], told["kept"], told["stages"]) == (2, 1, {"passed": 1, "format": 1})
    reasons = {item["sample"]: item["reason"] for item in told["unjudged"]}
    assert sorted(reasons) == ["level_1_problem_2_sample_0", "level_1_problem_99_sample_0"]
    assert "problem 99 of level 1" in reasons["level_1_problem_99_sample_0"]

    found = results(tmp_path)
    assert list(found) == ["1", "3"]
    assert found["3"] == [FOREIGN]
    right, wrong = found["1"]
    assert (right["sample_id"], right["compiled"], right["correctness"]) == (0, True, True)
    own = right["metadata"]["kernel_env"]
    assert (own["stage"], own["speedup"], own["task_id"]) == ("passed", 2.0, "level1/e01_RowSoftmax")
    assert right["runtime"] == right["runtime_stats"]["mean"] == own["runtime_ms"] > 0
    assert (wrong["compiled"], wrong["correctness"], wrong["runtime"], wrong["runtime_stats"]) == (
        False,
        False,
        -1,
        {},
    )
    assert wrong["metadata"]["compilation_error_name"] == "rejected"

    passes = json.loads((tmp_path / "pass_at_k_results.json").read_text())
    assert passes["problems"]["1"] == {"total_samples": 2, "correct_samples": 1, "pass@1": 0.5, "pass@2": 1.0}
    assert passes["averages"] == {"avg_pass@1": 0.25, "avg_pass@2": 1.0}

    write(tmp_path, 2, 0, scripted(speedup=1.5))
    write(tmp_path, 1, 1, scripted(speedup=3.0))
    (tmp_path / Sample(1, 99, 0).file_name).unlink()
    done = run("eval-run", str(tmp_path), "--base-url", server.url, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["judged"] == 2
    found = results(tmp_path)
    assert [entry["metadata"]["kernel_env"]["speedup"] for entry in (*found["1"], *found["2"])] == [2.0, 3.0, 1.5]


def test_an_own_evaluator_judges_levels_apart(tmp_path: Path) -> None:
    write(tmp_path, 1, 0, CODE)
    write(tmp_path, 2, 0, CODE, level=2)
    done = invoke("eval-run", str(tmp_path), "--evaluator", "mock", "--tasks", "embedded")
    assert done.returncode == 0, done.stderr
    assert "2 passed" in done.stdout
    for level, problem in ((1, "1"), (2, "2")):
        assert list(results(tmp_path / f"level_{level}")) == [problem]
    narrow = ("eval-run", str(tmp_path), "--evaluator", "mock", "--tasks", "embedded", "--precision", "bf16")
    refused = invoke(*narrow)
    assert (refused.returncode, refused.stderr.splitlines()[-1].count("holds results in fp32")) == (2, 1)
    assert invoke(*narrow, "--level", "1", "--again").returncode == 0
    (entry,) = results(tmp_path / "level_1")["1"]
    assert entry["metadata"]["kernel_env"]["precision"] == "bf16"
    scored = invoke("score", str(tmp_path))
    assert "in bf16, fp32, which don't compare" in scored.stderr
    empty = invoke("eval-run", str(tmp_path), "--level", "3")
    assert (empty.returncode, empty.stderr.count("\n")) == (2, 1)


class Scripted:
    """An evaluator that does what the code says: `ok`, `task` for a task's fault, or how often it is lost."""

    at_once = 2

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def task_ids(self) -> Sequence[str]:
        return []

    async def evaluate(self, task_id: str, language: str, code: str) -> Verdict:
        self.asked[task_id] += 1
        if code == "task":
            raise Fault("the task is unfit", again=False)
        if code.isdigit() and self.asked[task_id] <= int(code):
            raise Fault("lost", again=True)
        return {"stage": "passed"}


async def judged(*codes: str) -> tuple[list[Attempt | Unjudged], Scripted, str]:
    evaluator, found, stopped = Scripted(), list[Attempt | Unjudged](), ""
    work = [Work(Sample(1, n, 0), f"level1/{n}_T", "triton", code) for n, code in enumerate(codes, start=1)]
    try:
        async for result in judge(evaluator, work, pause_s=0.0):
            found.append(result)
    except EvaluatorError as error:
        stopped = str(error)
    return found, evaluator, stopped


async def test_faults_are_tried_again_and_many_in_a_row_end_the_run() -> None:
    found, evaluator, stopped = await judged("ok", "2", "3", *["task"] * 12, "ok")
    assert not stopped
    assert [evaluator.asked[f"level1/{n}_T"] for n in (1, 2, 3, 4)] == [1, 3, 3, 1]
    assert sum(isinstance(result, Attempt) for result in found) == 3
    assert {result.reason for result in found if isinstance(result, Unjudged)} == {"lost", "the task is unfit"}
    found, _, stopped = await judged(*["9"] * 20)
    assert len(found) == LOST_IN_A_ROW
    assert "in a row could not be judged: lost" in stopped


def test_files_of_a_run_directory(tmp_path: Path) -> None:
    write(tmp_path, 10, 0, "")
    write(tmp_path, 9, 1, "")
    assert [sample.problem for sample in kernels(tmp_path)] == [9, 10]
    assert results_files(tmp_path, {1}) == {1: tmp_path / "eval_results.json"}
    assert set(results_files(tmp_path, {1, 2})) == {1, 2}
    (tmp_path / "eval_results.json").write_text("{}")
    with pytest.raises(FolderError, match="which of the levels 1, 2"):
        results_files(tmp_path, {1, 2})
    (tmp_path / "level_1_problem_01_sample_0_kernel.py").write_text("")
    with pytest.raises(FolderError, match="rename it to level_1_problem_1_sample_0"):
        kernels(tmp_path)
    with locked(tmp_path), pytest.raises(FolderError, match="another"), locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "no map"),
        ("{", "cannot be read"),
        ('{"one": []}', "no map"),
        ('{"1": 3}', "no list"),
        ('{"1": [{"sample_id": 0}]}', "lacks"),
        (json.dumps({"1": [FOREIGN, FOREIGN]}), "two results of one sample"),
    ],
)
def test_results_that_are_none_are_refused(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "eval_results.json"
    file.write_text(content)
    with pytest.raises(ResultsError, match=told):
        Results(file, 1)


def test_entries_of_kernelbench_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "eval_results.json"
    right = {**FOREIGN, "sample_id": 1, "correctness": True, "runtime": 0.5, "runtime_stats": {"mean": 0.5}}
    file.write_text(json.dumps({"7": [FOREIGN, right], "8": {**FOREIGN, "compiled": False}}))
    read = list(Results(file, 2).attempts())
    assert [(a.level, a.problem, a.number, a.stage, a.runtime_ms) for a in read] == [
        (2, 7, 0, "correctness", None),
        (2, 7, 1, "passed", 0.5),
        (2, 8, 0, "compile", None),
    ]
    assert read[0].message == "boom"


def test_numbers_name_tasks() -> None:
    tasks = by_place(["level1/19_ReLU", "level1/e19_Other", "level2/3_X", "user/mine"])
    assert tasks == {(1, 19): "level1/19_ReLU", (2, 3): "level2/3_X"}
    assert list(select(tasks, [1], None)) == [(1, 19)]
    with pytest.raises(SelectionError, match=r"problem 19 of level 1"):
        by_place(["level1/19_A", "level1/19_B"])
    with pytest.raises(SelectionError, match="no level 4"):
        select(tasks, [4], None)
    with pytest.raises(SelectionError, match="problem 5"):
        select(tasks, None, [5])
    assert numbers("1-3, 7") == [1, 2, 3, 7]
    for text in ("", "3-1", "a", "1-999999999"):
        with pytest.raises(SelectionError):
            numbers(text)


def test_a_language_is_told_by_what_is_used() -> None:
    assert guess(CODE) == "triton"
    assert guess("load_inline(name='x', cpp_sources='', cuda_sources=S)") == "cuda"
    assert guess("load_inline(name='x', cpp_sources=S)") == "cpp"
    assert guess("x = 1") == "triton"
