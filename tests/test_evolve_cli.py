"""`kernel-env evolve` as a user runs it: exit statuses, settings, progress, resuming, the real evaluator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kernel_env.cli import app
from kernel_env.evolve import ConfigError, EvolveConfig, GPUEvaluator
from kernel_env.evolve.journal import read

from .endpoint import Body, Endpoint, Say, number_of, serving
from .evolving import SECRET, evolve
from .submissions import RIGHT, TASK, returning, vary

Here = Callable[..., Any]

WRONG = vary("/ tl.sum(value, axis=0)", "/ (1.05 * tl.sum(value, axis=0))")
COPY = returning("torch.softmax(x, 1)")
BROKEN = vary("def forward(self, x):", "def forward(self, x:")


def environment(**environ: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("KERNEL", "OPENAI"))}
    return {**clean, "OPENAI_API_KEY": SECRET, **environ}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    command = [sys.executable, "-m", "kernel_env.cli", "evolve", *arguments]
    return subprocess.run(command, env=environment(), cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """The command within this process: it is the same, and starts at once."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("KERNEL", "OPENAI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return lambda *arguments: CliRunner().invoke(app, ["evolve", *arguments])


def fenced(code: str, number: int = 0) -> str:
    return f"Idea: number {number}\n```python\n{code}\nNUMBER = {number}\n```"


def usual(body: Body, number: int) -> str:
    return fenced(RIGHT, number_of(body))


@pytest.fixture
def task(tmp_path: Path) -> Path:
    file = tmp_path / "softmax.py"
    file.write_text(TASK)
    return file


def common(endpoint: Endpoint) -> tuple[str, ...]:
    return ("--model", "scripted", "--base-url", endpoint.url, "--evaluator", "mock")


def test_a_run_from_the_command_line(task: Path, tmp_path: Path) -> None:
    with serving(usual) as endpoint:
        done = run(
            str(task),
            *common(endpoint),
            *("--header", "X-Gateway=abc-gateway", "--max-evals", "8", "--run-dir", "r", "--json"),
            cwd=tmp_path,
        )
        found = json.loads(done.stdout)
        assert done.returncode == found["status"], done.stderr
        assert done.returncode in (0, 1)
        assert "candidate 0 (draft):" in done.stderr
        assert found["usage"]["evaluations"] <= 8
        assert any("made up" in note for note in found["notes"])
        assert "abc-gateway" in endpoint.seen[0][1].values()
        for file in (tmp_path / "r").rglob("*"):
            assert file.is_dir() or SECRET.encode() not in file.read_bytes()
        asked = len(endpoint.requests)
        again = run(str(task), *common(endpoint), "--run-dir", "r", cwd=tmp_path)
        assert again.returncode == 3
        assert "holds a run already" in again.stderr
        # The folder's own settings are enough to go on, but for secrets.
        refused = run("--resume", "r", cwd=tmp_path)
        assert refused.returncode == 3
        assert "give --header X-Gateway=... again" in refused.stderr
        header = ("--header", "X-Gateway=abc-gateway")
        resumed = run("--resume", "r", *header, "--max-evals", "12", "--quiet", cwd=tmp_path)
        assert resumed.returncode in (0, 1), resumed.stderr
        assert "confirmed" in resumed.stdout
        assert resumed.stderr == ""
        assert len(endpoint.requests) > asked
    replayed = run("--replay", "r/run.jsonl", "--run-dir", "again", "--json", cwd=tmp_path)
    assert replayed.returncode in (0, 1), replayed.stderr
    nodes = [[e for e in read(tmp_path / d / "run.jsonl") if e["event"] == "node"] for d in ("r", "again")]
    trees = [[(e["parent"], e["program"], e["score"]) for e in events] for events in nodes]
    assert trees[1] == trees[0][: len(trees[1])]


def test_a_control_is_printed_beside_it(task: Path, tmp_path: Path, here: Here) -> None:
    with serving(usual) as endpoint:
        done = here(str(task), *common(endpoint), "--max-evals", "6", "--control", "--run-dir", "r")
    assert "\ncontrol (best_of_n): candidate" in done.stdout, done.stderr
    config = yaml.safe_load((tmp_path / "r" / "control" / "config.yaml").read_text())
    assert config["search"]["strategy"] == "best_of_n"
    assert config["budget"]["evaluations"] == 6


def test_nothing_correct_is_status_2(task: Path, tmp_path: Path, here: Here) -> None:
    with serving(lambda body, number: fenced(COPY, number)) as endpoint:
        done = here(str(task), *common(endpoint), "--max-evals", "4")
    assert done.exit_code == 2, done.stderr
    assert "no program was verified" in done.stdout
    assert list((tmp_path / "runs").iterdir())


def test_a_dead_endpoint_is_status_4(task: Path, tmp_path: Path, here: Here) -> None:
    with serving(lambda body, number: Say(status=401)) as endpoint:
        done = here(str(task), *common(endpoint), "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["stop"] == "endpoint"


def test_ctrl_c_is_status_130_and_saved(task: Path, tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say:
        return Say(usual(body, number), delay_s=0.0 if number_of(body) < 2 else 30.0)

    with serving(policy) as endpoint:
        command = [
            sys.executable,
            "-m",
            "kernel_env.cli",
            "evolve",
            str(task),
            *common(endpoint),
            "--run-dir",
            "r",
        ]
        process = subprocess.Popen(command, env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60.0
        while not (tmp_path / "r" / "best.py").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in stdout
    assert read(tmp_path / "r" / "run.jsonl")[-1]["event"] == "stop"


def test_what_is_wrong_is_status_3_and_one_line(task: Path, tmp_path: Path, here: Here) -> None:
    (tmp_path / "not_a_task.py").write_text("x = 1\n")
    (tmp_path / "bad.yaml").write_text("search: {strategi: beam}\n")
    model = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    for arguments, text in (
        ((), "name a TASK"),
        (("level1/e01_RowSoftmx", *model), "did you mean level1/e01_RowSoftmax"),
        ((str(task),), "model_name"),
        (("not_a_task.py", *model), "class Model"),
        ((str(task), *model, "--config", "bad.yaml"), "did you mean strategy"),
        ((str(task), *model, "--strategy", "anneal"), "search.strategy"),
        ((str(task), *model, "--max-usd", "1"), "needs the price"),
        ((str(task), *model, "--max-time", "soon"), "90s, 30m or 2h"),
    ):
        done = here(*arguments)
        assert done.exit_code == 3, (arguments, done.stdout, done.stderr)
        assert text in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_wrong_option_or_no_key_is_status_3(task: Path, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here("--no-such-option").exit_code == 3
    monkeypatch.delenv("OPENAI_API_KEY")
    done = here(str(task), "--model", "m")
    assert done.exit_code == 3
    assert "OPENAI_API_KEY" in done.stderr


def test_a_dry_run_needs_no_key(task: Path, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    done = here(str(task), "--model", "m", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "tokens at most" in done.stdout
    assert "--model" in here(str(task), "--dry-run").stderr


def test_a_dry_run_sends_nothing(task: Path, tmp_path: Path, here: Here) -> None:
    with serving(usual) as endpoint:
        done = here(
            str(task),
            *common(endpoint),
            *("--dry-run", "--json", "--max-usd", "2", "--max-tokens", "600000", "--max-evals", "200"),
            *("--set", "prices.scripted={input: 1, output: 4}", "--set", "llm.options.max_tokens=4000"),
        )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["answer_tokens_at_most"], found["usd_at_most"]) == (4000, 2.0)
    assert 50 < found["candidates"] < 200
    assert not endpoint.requests
    assert not (tmp_path / "runs").exists()


def test_settings_are_the_same_through_file_and_options(tmp_path: Path, here: Here) -> None:
    file = tmp_path / "evolve.yaml"
    file.write_text("llm: {model_name: m}\nsearch: {strategy: beam, seed: 3}\nbudget: {wall_seconds: 1800}\n")
    printed = here("--config", str(file), "--print-config")
    options = ("--model", "m", "--strategy", "beam", "--set", "search.seed=3", "--max-time", "30m")
    assert here(*options, "--print-config").stdout == printed.stdout
    assert EvolveConfig.load(file) == EvolveConfig.parse(yaml.safe_load(printed.stdout))


def test_variables_in_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "evolve.yaml"
    file.write_text("llm: {headers: {X-Id: '${MY_ID}-1'}}\n")
    monkeypatch.setenv("MY_ID", "me")
    assert EvolveConfig.load(file).llm.headers == {"X-Id": "me-1"}
    monkeypatch.delenv("MY_ID")
    with pytest.raises(ConfigError, match="MY_ID"):
        EvolveConfig.load(file)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"budget": {"evaluations": 1}}, "budget.evaluations"),
        ({"prices": {"m": {"in": 1, "output": 2}}}, "prices.m"),
        ({"llm": {"modelname": "m"}}, "did you mean model_name"),
        ({"parallel": {"llm": 1000}}, "parallel.llm"),
    ],
)
def test_settings_that_are_wrong(found: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        EvolveConfig.parse(found)


def test_importing_stays_light() -> None:
    program = (
        "import sys, kernel_env, kernel_env.cli, kernel_env.evolve, kernel_env.evolve.local;"
        "from kernel_env.evolve import KernelEvolve, LLMConfig, BaseEvaluator, GPUEvaluator, Metrics;"
        "heavy = {'torch', 'openai', 'openenv', 'gradio'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_real_evaluator_judges(tmp_path: Path) -> None:
    """Wrong, cheating, broken, right, cut, and right again: only what was verified twice is a success."""
    answers = {
        0: fenced(WRONG),
        1: fenced(COPY),
        2: fenced(BROKEN),
        3: f"{fenced(RIGHT)}\n\nAn example of its use:\n```python\nmodel(x)\n```",
        4: fenced(RIGHT)[:200],
    }

    def policy(body: Body, number: int) -> Say | str:
        candidate = number_of(body)
        said = answers.get(candidate, fenced(RIGHT.replace("A right softmax", "The same")))
        return Say(said, finish_reason="length") if candidate == 4 else said

    settings = {"KERNEL_ENV_TRIALS": "2"}
    config = {"budget": {"calls": 7, "evaluations": 12}, "search": {"remeasure": 0}}
    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, config, GPUEvaluator(kind="cpu", settings=settings), initial_code=TASK)
        prompts = {number_of(body): body["messages"][-1]["content"] for body in endpoint.requests}
    stages = [node.stage for node in result.history]
    assert stages[:5] == ["correctness", "format", "compile", "passed", "answer"]
    assert "elements are off" in result.history[0].feedback
    assert "torch.softmax" in result.history[1].feedback
    assert "line 20" in result.history[2].feedback
    assert {node.duplicate_of for node in result.history[5:]} == {3}
    success, source = result
    assert success
    assert "softmax_kernel" in source
    assert result.best is not None
    # A CPU does not time Triton: verified, but not known to be faster.
    assert (result.best.speedup, result.status) == (None, 1)
    first, again = result.history[3].metrics, result.best.metrics
    assert first is not None
    assert first.details["seeds_digest"] != again.details["seeds_digest"]
    assert result.usage.evaluations == 5
    assert "`ModelNew`" in prompts[0]
    assert "Triton" in prompts[0]
