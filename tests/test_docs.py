"""README and docs: every snippet runs or says what it needs that is not here, and every link leads somewhere.

A snippet is a fence with a language. `python` and `bash` run in order, file by file, in one namespace and one
folder; `yaml` and `json` are parsed; `text` is no snippet. A comment in front of a fence marks what differs:

    <!-- skip: next "needs docker" -->      a need of `NEEDS`, and more words after a colon if that helps
    <!-- file: softmax.py -->               is saved under that name, for later snippets

The addresses and evaluators that they name stand for a server on the mock evaluator, a scripted model and the mock
evaluator. What a reader brings along, and what a command that is skipped leaves behind, is in `bring`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from unittest import SkipTest

import pytest
import yaml
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from kernel_env.models import KernelAction, KernelObservation
from kernel_env.server.outcome import Outcome

from .conftest import Launch
from .endpoint import Body, Endpoint, serving
from .serving import CODE, Server
from .submissions import TASK

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "bash", "yaml", "json", "text"}
NEEDS = "a GPU", "docker", "Modal", "a Ray cluster", "a network", "make", "an idle machine", "KernelBench"

EVALUATORS = {
    "GPUEvaluator()": 'GPUEvaluator(kind="mock")',
    "kernel-env evolve task.py": "kernel-env evolve task.py --set evaluator.kind=mock",
}

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
SKIP = re.compile(r"<!--+ *skip: *(.*?) *--+>")
FILE = re.compile(r"<!-- file: (\S+) -->\s*\Z")
SHELL_S = 200.0


@dataclass
class Stage:
    """Where the snippets of one page run: a folder, and texts to put in the place of others."""

    folder: Path
    replaced: dict[str, str]
    environ: dict[str, str]

    def text(self, example: Example) -> str:
        text = str(example.parsed)
        for told, real in self.replaced.items():
            text = text.replace(told, real)
        return text

    def python(self, example: Example) -> None:
        text = self.text(example)
        if named := FILE.search(example.document.text[: example.region.start]):
            (self.folder / named[1]).write_text(text)
            return
        lines = "\n" * (example.line + example.parsed.line_offset)
        exec(compile(lines + text, example.path, "exec", dont_inherit=True), example.namespace)

    def bash(self, example: Example) -> None:
        command = ["bash", "-euo", "pipefail", "-c", self.text(example)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=SHELL_S
        )
        assert done.returncode == 0, f"{example.path}:{example.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def policy(body: Body, number: int) -> str:
    return f"```python\n{CODE.replace('1024', str(1024 + number))}\n```"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with serving(policy) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(KERNEL_ENV_USER_TASKS="true", KERNEL_ENV_EVAL_LOG_CODE="true")


@pytest.fixture(scope="module")
def log(server: Server) -> str:
    """A log with a right submission, as a server with a GPU would write it."""
    with server.connect() as wire:
        wire.reset()
        wire.step(CODE)
    return server.stdout.read_text().replace('"kind":"mock"', '"kind":"cuda"')


@pytest.fixture
def stage(server: Server, endpoint: Endpoint, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for name in [name for name in os.environ if name.startswith(("KERNEL", "OPENAI"))]:
        monkeypatch.delenv(name)
    given = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KERNEL_ENV_EVALUATOR": "mock",
        "KERNEL_ENV_EVAL_LOG": str(tmp_path / "log.jsonl"),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": endpoint.url,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    # As conftest has it: openenv does without gradio, whose import takes each command seconds.
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['gradio'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text(log)
    models = {f"http://localhost:{port}/v1": endpoint.url for port in (8080, 9000)}
    replaced = {"http://localhost:8000": server.url, **models, **EVALUATORS}
    return Stage(tmp_path, replaced, dict(os.environ))


def bring(stage: Stage) -> dict[str, Any]:
    """The names and files that snippets take for granted."""
    (stage.folder / "my_kernel.py").write_text(CODE)
    (stage.folder / "task.py").write_text(TASK)
    level = stage.folder / "KernelBench" / "KernelBench" / "level1"
    level.mkdir(parents=True, exist_ok=True)
    (level / "1_Softmax.py").write_text(TASK)
    times = {"mean": 1.0, "std": 0.1, "min": 0.9, "max": 1.1, "num_trials": 100, "hardware": "H200", "device": "0"}
    baseline = stage.folder / "results" / "timing" / "H200" / "baseline_time_torch.json"
    baseline.parent.mkdir(parents=True, exist_ok=True)
    baseline.write_text(json.dumps({"level1": {"1_Softmax.py": times}}))
    return {
        "my_model": lambda problem: CODE,
        "kernel": CODE,
        "code": CODE,
        "initial_code": TASK,
        "my_model_step": lambda *_: None,
        "KernelAction": KernelAction,
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page: Path, stage: Stage) -> None:
    parsers = [
        SkipParser(),
        CodeBlockParser("python", stage.python),
        CodeBlockParser("bash", stage.bash),
        CodeBlockParser("yaml", lambda example: yaml.safe_load(example.parsed) and None),
        CodeBlockParser("json", lambda example: json.loads(example.parsed) and None),
    ]
    document = Document.parse(str(page), *parsers)
    document.namespace.update(bring(stage))
    for example in document.examples():
        try:
            example.evaluate()
        except SkipTest:
            continue


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fence_names_its_language_and_every_exception_its_reason(page: Path) -> None:
    text = page.read_text()
    assert {language for language, _ in FENCE.findall(text)} <= LANGUAGES
    assert text.count("\n```") == 2 * len(FENCE.findall(text)) - text.startswith("```")
    for mark in SKIP.findall(text):
        assert re.fullmatch(rf'next "needs ({"|".join(NEEDS)})(: [^"]+)?"', mark), mark
    outside = FENCE.sub("", text)
    indented = re.findall(r"\n\n(?! *(?:[-*]|\d+\.) )(?<!  )    \S.*", outside)
    assert not [line for line in indented if not _in_list(outside, line)], "a fence instead of indented code"


def _in_list(text: str, line: str) -> bool:
    before = text[: text.index(line)].rstrip().splitlines()
    return bool(before) and bool(re.match(r"\s*(?:[-*]|\d+\.) |  ", before[-1]))


def anchors(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of plain headings."""
    headings = re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        path, _, anchor = target.partition("#")
        if path.startswith(("http://", "https://")):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert not dead


def test_every_field_of_an_observation_is_told() -> None:
    told = (ROOT / "docs" / "observation.md").read_text()
    assert not [name for name in KernelObservation.model_fields if f"`{name}`" not in told]


def test_every_outcome_is_told() -> None:
    told = (ROOT / "docs" / "observation.md").read_text()
    kinds = [get_args(member.model_fields["kind"].annotation)[0] for member in get_args(get_args(Outcome)[0])]
    assert len(kinds) > 5
    assert [kind for kind in kinds if f"| `{kind}` |" not in told] == []


def test_a_dead_link_and_an_unmarked_command_would_be_found(tmp_path: Path, stage: Stage) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n[b](#b)\n\n```bash\nexit 3\n```\n\n```python\nmissing_name\n```\n")
    with pytest.raises(AssertionError):
        test_links_lead_somewhere(page)
    with pytest.raises(AssertionError, match=r"page\.md:5"):
        test_snippets_run(page, stage)
    page.write_text(page.read_text().replace("exit 3", "true"))
    with pytest.raises(NameError):
        test_snippets_run(page, stage)
