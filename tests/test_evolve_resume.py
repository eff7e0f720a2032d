"""A run that was killed and resumed has the tree of one that was not; a recorded one comes again by itself."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernel_env.evolve import EvolveConfig, EvolveResult, KernelEvolve, ReplayError, RunFolderError
from kernel_env.evolve.journal import read
from kernel_env.evolve.redact import Redactor

from .endpoint import Body, Say, number_of, serving
from .evolving import HEADER_SECRET, SECRET, TASK, Landscape, answer, evolve, kernel_evolve, llm, program, tree_of
from .test_evolve_search import climbing

ROOT = Path(__file__).parents[1]
CONFIG = {"budget": {"evaluations": 20}, "parallel": {"llm": 3, "evaluations": 2}, "search": {"remeasure": 4}}


def delayed(body: Body, number: int) -> Say:
    """Answers overtake each other, otherwise each time."""
    return Say(climbing(body, number), delay_s=random.random() * 0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> EvolveResult:
    with serving(delayed) as endpoint:
        return evolve(endpoint, tmp_path_factory.mktemp("whole"), CONFIG)


def test_killed_at_random_points_and_resumed(tmp_path: Path) -> None:
    with serving(delayed) as endpoint:
        command = [sys.executable, "-m", "tests.evolve_victim", endpoint.url, str(tmp_path), "7", "20"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    whole = found["trees"].pop("whole")
    assert len(whole) >= 6
    assert found["killed"] == 20 <= len(found["trees"])
    assert all(tree == whole for tree in found["trees"].values())
    for run in tmp_path.iterdir():
        assert paid_once(run)


def paid_once(run: Path) -> bool:
    """No answer and no evaluation is in the journal twice."""
    events = read(run / "run.jsonl")
    answers = Counter(event["node"] for event in events if event["event"] == "answer")
    evaluations = Counter((e["program"], e["number"]) for e in events if e["event"] == "evaluation")
    return max(answers.values()) == 1 and max(evaluations.values()) == 1


def test_cut_at_any_byte(tmp_path: Path, whole: EvolveResult) -> None:
    """What a kill leaves is a beginning of the journal."""
    journal = (whole.run_dir / "run.jsonl").read_bytes()
    first = journal.index(b"\n") + 1
    rng = random.Random(3)
    with serving(delayed) as endpoint:
        for number in range(10):
            run = tmp_path / str(number) / "run"
            run.mkdir(parents=True)
            (run / "run.jsonl").write_bytes(journal[: rng.randint(first, len(journal))])
            result = evolve(endpoint, run.parent, CONFIG, resume=True)
            assert tree_of(result) == tree_of(whole)
            assert result.best is not None
            assert whole.best is not None
            assert result.best.speedup == whole.best.speedup


def test_what_is_known_is_neither_asked_nor_evaluated_again(tmp_path: Path, whole: EvolveResult) -> None:
    shutil.copytree(whole.run_dir, tmp_path / "run")
    landscape = Landscape()
    with serving(delayed) as endpoint:
        result = evolve(endpoint, tmp_path, CONFIG, landscape, resume=True)
    assert tree_of(result) == tree_of(whole)
    assert not landscape.seen
    assert len(endpoint.requests) <= 3


def test_a_resumed_run_may_have_a_larger_budget_and_another_model(tmp_path: Path, whole: EvolveResult) -> None:
    shutil.copytree(whole.run_dir, tmp_path / "run")
    larger = {**CONFIG, "budget": {"evaluations": 30}}
    with serving(delayed) as endpoint:
        config = llm(endpoint)
        config.model_name = "another"
        result = KernelEvolve(
            TASK, config, Landscape(), config=EvolveConfig.parse(larger), run_dir=tmp_path / "run", resume=True
        ).evolve()
    assert tree_of(result)[: len(whole.history)] == tree_of(whole)
    assert len(result.history) > len(whole.history)
    assert {node.model for node in result.history} == {"scripted", "another"}


@pytest.mark.parametrize(
    "change",
    [{"search": {"seed": 5, "remeasure": 4}}, {"search": {"strategy": "beam", "remeasure": 4}}],
    ids=["seed", "strategy"],
)
def test_another_search_is_another_run(tmp_path: Path, whole: EvolveResult, change: dict[str, Any]) -> None:
    shutil.copytree(whole.run_dir, tmp_path / "run")
    with serving(delayed) as endpoint, pytest.raises(RunFolderError, match="begin a new run"):
        evolve(endpoint, tmp_path, {**CONFIG, **change}, resume=True)


def test_a_folder_holds_one_run(tmp_path: Path, whole: EvolveResult) -> None:
    shutil.copytree(whole.run_dir, tmp_path / "run")
    with serving(delayed) as endpoint:
        with pytest.raises(RunFolderError, match="holds a run already"):
            evolve(endpoint, tmp_path, CONFIG)
        with pytest.raises(RunFolderError, match="no run to resume"):
            evolve(endpoint, tmp_path / "nothing", CONFIG, resume=True)
    journal = tmp_path / "run" / "run.jsonl"
    journal.write_text(journal.read_text().replace('"stage": "passed"', '"stage": "compile"', 1))
    with serving(delayed) as endpoint, pytest.raises(RunFolderError, match="differs from the journal in stage"):
        evolve(endpoint, tmp_path, CONFIG, resume=True)


def test_a_run_has_one_owner(tmp_path: Path) -> None:
    inner: list[Exception] = []

    def policy(body: Body, number: int) -> str:
        if number == 0:
            try:
                evolve(endpoint, tmp_path, CONFIG, resume=True)
            except RunFolderError as error:
                inner.append(error)
        return climbing(body, number)

    with serving(policy) as endpoint:
        evolve(endpoint, tmp_path, {"budget": {"calls": 2}})
    assert "in use by another process" in str(inner[0])


def test_a_run_without_endpoint_is_resumed_with_one(tmp_path: Path, whole: EvolveResult) -> None:
    def failing(body: Body, number: int) -> Say:
        return delayed(body, number) if number_of(body) < 6 else Say(status=401)

    with serving(failing) as endpoint:
        first = evolve(endpoint, tmp_path, CONFIG)
        assert first.status == 4
        assert tree_of(first) == tree_of(whole)[:6]
        endpoint.policy = delayed
        assert tree_of(evolve(endpoint, tmp_path, CONFIG, resume=True)) == tree_of(whole)


# Record and replay.


def replayed(recording: Path, folder: Path) -> EvolveResult:
    return KernelEvolve.replay(recording, run_dir=folder).evolve()


def test_a_run_is_replayed_without_endpoint_and_evaluator(tmp_path: Path) -> None:
    with serving(delayed) as endpoint:
        result = evolve(endpoint, tmp_path / "a", CONFIG, record=tmp_path / "run.recording")
    again = replayed(tmp_path / "run.recording", tmp_path / "b")
    assert tree_of(again) == tree_of(result)
    assert again.result == result.result
    assert again.usage.evaluations <= result.usage.evaluations
    # A replay leaves a run like any other.
    assert tree_of(replayed(again.run_dir / "run.jsonl", tmp_path / "c")) == tree_of(result)


def test_a_run_with_faults_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_env.evolve.bench.BETWEEN_S", 0.0)

    def policy(body: Body, number: int) -> Say | str:
        candidate = number_of(body)
        if candidate == 2:
            return Say(status=400)
        return answer(program(1.0 + candidate, "raise" if candidate == 1 else ""))

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 6}})
    assert [node.stage for node in result.history][:3] == ["passed", "infrastructure", "endpoint"]
    again = replayed(result.run_dir / "run.jsonl", tmp_path / "again")
    assert tree_of(again) == tree_of(result)


def test_a_request_that_was_not_recorded_is_an_error(tmp_path: Path, whole: EvolveResult) -> None:
    lines = (whole.run_dir / "run.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"event": "answer"' not in line or '"node": 3,' not in line]
    recording = tmp_path / "recording"
    recording.write_text("".join(kept))
    with pytest.raises(ReplayError, match="candidate 3; the recording has none"):
        replayed(recording, tmp_path / "a")
    without = [line for line in lines if '"event": "evaluation"' not in line]
    recording.write_text("".join(without))
    with pytest.raises(ReplayError, match="evaluation"):
        replayed(recording, tmp_path / "b")


# Secrets.


def test_a_planted_secret_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint echoes the key in answers and errors, the evaluator in what it raises."""
    monkeypatch.setattr("kernel_env.evolve.bench.BETWEEN_S", 0.0)

    def policy(body: Body, number: int) -> Say | str:
        candidate = number_of(body)
        if candidate == 1:
            return Say(status=400, error={"message": f"bad key {SECRET} via {HEADER_SECRET}"})
        fault = "raise" if candidate == 2 else ""
        code = program(1.0 + candidate, fault).replace("import torch", f"import torch\nKEY = '{SECRET}'")
        return answer(code, f"use {SECRET} and {HEADER_SECRET}")

    with serving(policy) as endpoint:
        url = endpoint.url.replace("http://", "http://someone:pass-planted-1@")
        secret = llm(endpoint)
        secret.base_url = url
        run = KernelEvolve(
            TASK,
            secret,
            Landscape(),
            config=EvolveConfig.parse({"budget": {"calls": 8}}),
            run_dir=tmp_path / "run",
            record=tmp_path / "recording",
        )
        result = run.evolve()
        resumed = kernel_evolve(endpoint, tmp_path, {"budget": {"calls": 8}}, resume=True).evolve()
    assert tree_of(result) == tree_of(resumed)
    assert "[redacted]" in result.result
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"config.yaml", "run.jsonl", "best.py", "best.json", "report.html"} <= {path.name for path in files}
    for path in files:
        for planted in (SECRET, HEADER_SECRET, "pass-planted-1", "someone:"):
            assert planted.encode() not in path.read_bytes(), (path, planted)


def test_redaction() -> None:
    redact = Redactor(["Bearer tok-12345", "abc", "research", None, ""])
    assert redact("x tok-12345 y Bearer tok-12345 abc") == "x [redacted] y [redacted] abc"
    # A header may hold a word that any program may hold, too.
    assert redact("import research") == "import research"
    assert redact.deep({"tok-12345": ["tok-12345", 1, None]}) == {"[redacted]": ["[redacted]", 1, None]}


# Reports.


def test_the_report_has_every_candidate_and_loads_nothing(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        hostile = "</pre><script>alert(1)</script><img src=http://127.0.0.1/x>"
        return answer(
            program(1.0 + number_of(body)).replace("import torch", f"import torch\nX = {hostile!r}"), hostile
        )

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 9}})
    page = (result.run_dir / "report.html").read_text()
    assert all(f'id="n{node.id}"' in page for node in result.history)
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert "difference to" in page
    assert result.best is not None
    assert f"{result.best.speedup:.3g}x" in page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_the_report_opens_in_a_browser_without_network(whole: EvolveResult, tmp_path: Path) -> None:
    page = (whole.run_dir / "report.html").as_uri()
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = subprocess.run(
        [*browser, offline, "--enable-logging=stderr", "--dump-dom", f"{page}#n3"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert all(f'id="n{node.id}"' in done.stdout for node in whole.history)
    assert "Refused to" not in done.stderr
    assert "violates the following Content Security Policy" not in done.stderr


def test_the_report_of_nothing(tmp_path: Path) -> None:
    with serving(lambda body, number: Say(status=401)) as endpoint:
        result = evolve(endpoint, tmp_path)
    assert "No program was verified" in (result.run_dir / "report.html").read_text()
