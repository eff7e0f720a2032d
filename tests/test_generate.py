"""`kernel-env generate` and `generate-and-eval` against a scripted endpoint on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.languages import known
from kernel_env.server.tasks import TaskSet
from kernel_env.toolkit.prompt import EXAMPLES, SHOTS, Style, example, prompt

from .commands import invoke
from .endpoint import Body, Say, serving
from .serving import CODE

SECRET = "sk-never-on-disk"


def answer(body: Body, number: int) -> Say | str:
    text = body["messages"][0]["content"]
    if "e02_SiLU" in text:
        return Say(status=422, error={"message": f"no e02 today, {SECRET}"})
    if number == 0:
        return Say(status=429, headers={"Retry-After": "0"})
    return Say(f"Here it is.\n```python\n{CODE}```\n", finish_reason="length" if "e03" in text else "stop")


def test_kernels_are_asked_for_once_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    common = ("generate", str(folder), "--model", "tiny", "--level", "1", "--tasks", "embedded", "--json")
    with serving(answer) as endpoint:
        first = invoke(*common, "--problems", "1-3", "--endpoint", endpoint.url, OPENAI_API_KEY=SECRET)
        assert first.returncode == 1, first.stderr
        told = json.loads(first.stdout)
        assert (told["generated"], told["kept"], told["cut"]) == (2, 0, 1)
        (missing,) = told["missing"]
        assert missing["sample"] == "level_1_problem_2_sample_0"
        assert "no e02 today" in missing["reason"]
        assert SECRET not in first.stdout + first.stderr
        asked = len(endpoint.requests)
        more = (
            "--problems",
            "1",
            "--samples",
            "2",
            "--prompt",
            "zero",
            "--temperature",
            "0.5",
            "--max-tokens",
            "99",
            "--precision",
            "bf16",
        )
        second = invoke(*common, *more, OPENAI_BASE_URL=endpoint.url)
        assert second.returncode == 0, second.stderr
        assert json.loads(second.stdout)["generated"] == 1
        (body,) = endpoint.requests[asked:]
        assert (body["model"], body["temperature"], body["max_completion_tokens"]) == ("tiny", 0.5, 99)
        text = body["messages"][0]["content"]
        assert text.count("```python") == 1
        assert "cast to `torch.bfloat16`" in text
        assert "0.02 + 0.02 * |expected|" in text, "the tolerance is that of the precision"
    stems = ("level_1_problem_1_sample_0", "level_1_problem_1_sample_1", "level_1_problem_3_sample_0")
    assert sorted(file.name for file in folder.glob("*_kernel.py")) == [f"{stem}_kernel.py" for stem in stems]
    for stem in stems:
        assert (folder / f"{stem}_kernel.py").read_text() == CODE
        assert "# level1/e0" in (folder / f"{stem}_prompt.txt").read_text()
        assert json.loads((folder / f"{stem}_answer.json").read_text())["text"].startswith("Here it is.")
    assert not any(SECRET in file.read_text() for file in folder.iterdir())


def test_one_kernel_is_generated_and_judged() -> None:
    common = ("generate-and-eval", "--model", "tiny", "--level", "1", "--tasks", "embedded", "--json")
    with serving(lambda body, number: f"```python\n{CODE}```") as endpoint:
        where = ("--endpoint", endpoint.url, "--evaluator", "mock")
        done = invoke(*common, "--problem", "1", *where)
        assert done.returncode == 0, done.stderr
        verdict = json.loads(done.stdout)
        assert (verdict["stage"], verdict["task_id"]) == ("passed", "level1/e01_RowSoftmax")
        unknown = invoke(*common, "--problem", "99", *where)
        assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    with serving(lambda body, number: Say(status=401)) as endpoint:
        refused = invoke(*common, "--problem", "1", "--endpoint", endpoint.url, "--evaluator", "mock")
        assert refused.returncode == 2
        assert "401" in refused.stderr


@pytest.mark.parametrize("language", known())
def test_a_prompt_holds_what_it_is_asked_to(language: str) -> None:
    task = TaskSet.load(Settings()).get("level1/e01_RowSoftmax")
    for shots, count in SHOTS.items():
        text = prompt(task, Style(language, shots), Settings())
        assert text.count("class ModelNew(") == count + text.count("`class ModelNew(")
        assert task.source.strip() in text
        assert "## Rules" in text
        assert "## Hardware" not in text
        assert "0.01 + 0.01 * |expected|" in text
    full = prompt(task, Style(language, "one", "NVIDIA H200", "bf16"), Settings(atol=0.5))
    assert "moves 4800 GB/s" in full
    assert "bfloat16" in full
    assert "0.5 + 0.01 * |expected|" in full
    assert "runs on A Toaster." in prompt(task, Style(language, "zero", "A Toaster"), Settings())


@pytest.mark.parametrize("language", known())
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_pass_the_static_checks(name: str, language: str) -> None:
    assert check(example(name, language), language, 1 << 18) is None
