"""The toolkit as a whole: its documented sequence, and the prompts' examples before the real evaluator."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_env.server.local import visible_gpus
from kernel_env.toolkit.folder import Sample, kernels
from kernel_env.toolkit.prompt import EXAMPLES, example

from .commands import invoke
from .endpoint import serving
from .serving import CODE
from .test_cli import DOUBLE, run

DOCUMENT = Path(__file__).parents[1] / "docs" / "toolkit.md"
BASELINE = {"2_Double.py": {"mean": 100.0}, "3_Double.py": {"mean": 100.0}, "4_Double.py": {"mean": 100.0}}


def commands(heading: str) -> list[list[str]]:
    """The commands that follow `heading`, up to the first table, without `kernel-env`."""
    section = DOCUMENT.read_text().partition(heading)[2].partition("\n|")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("kernel-env ")]


def test_the_documented_sequence_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = tmp_path / "KernelBench" / "level1"
    tasks.mkdir(parents=True)
    for number in (2, 3):
        (tasks / f"{number}_Double.py").write_text(DOUBLE)
    monkeypatch.chdir(tmp_path)
    sequence = commands("From nothing to a report")
    names = [command[0] for command in sequence]
    assert names == ["generate", "eval-run", "baseline", "score", "report", "profile"]
    with serving(lambda body, number: f"```python\n# {number}\n{CODE}```") as endpoint:
        where = {
            "KERNELBENCH_DIR": str(tasks.parent),
            "OPENAI_BASE_URL": endpoint.url,
            "KERNEL_ENV_EVALUATOR": "mock",
        }
        for command in sequence[:-1]:  # what is profiled has a test of its own
            done = invoke(*command, **where)
            if command[0] == "baseline":
                assert "the mock evaluator runs nothing" in done.stderr
                file = tmp_path / "results" / "timing" / "H200" / "baseline_time_torch.json"
                file.parent.mkdir(parents=True)
                file.write_text(json.dumps({"level1": BASELINE}))
                continue
            assert done.returncode == 0, (command, done.stderr)
            if command[0] == "score":
                assert re.search(r"tasks +2 of 3", done.stdout)
                assert re.search(r"pass@3 +1\.000", done.stdout)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_honest_kernels_become_a_run_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.run_folder", str(tmp_path / "run"), "--count", "20"]
    subprocess.run(command, cwd=DOCUMENT.parents[1], check=True, timeout=60)
    found = kernels(tmp_path / "run")
    assert len(found) == 20
    assert all("class ModelNew" in file.read_text() for file in found.values())


def test_every_command_of_the_documentation_exists() -> None:
    text = DOCUMENT.read_text()
    named = set(re.findall(r"kernel-env ([a-z][a-z-]+)", text))
    assert {"generate", "generate-and-eval", "eval-run", "baseline", "score", "report", "export"} <= named
    helps = {name: invoke(name, "--help", COLUMNS="200").stdout for name in named}
    for name in named:
        assert "Usage" in helps[name], name
    for option in set(re.findall(r"(--[a-z][a-z-]+)", text)):
        assert any(option in shown for shown in helps.values()), option


@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
def test_the_examples_of_prompts_pass(tmp_path: Path) -> None:
    languages = ("triton", "cuda")
    folder, tasks = tmp_path / "run", tmp_path / "tasks" / "level1"
    folder.mkdir()
    tasks.mkdir(parents=True)
    for problem, name in enumerate(EXAMPLES, start=1):
        (tasks / f"{problem}_{name}.py").write_text(example(name, "reference"))
        for number, language in enumerate(languages):
            (folder / Sample(1, problem, number).file_name).write_text(example(name, language))
    done = run("eval-run", str(folder), "--tasks", str(tasks.parent), "--json", timeout=280)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["stages"] == {"passed": len(EXAMPLES) * len(languages)}, done.stderr
