"""The registry of languages: ours, what a device lacks for one, and plug-ins found by their entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel_env.server import languages
from kernel_env.server.config import Settings
from kernel_env.server.languages import LanguageError
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Device, Infrastructure

from .conftest import Launch
from .pools import evaluated, started
from .submissions import RIGHT

VERSIONS = {"torch": "2.13.0"}
GPU = Device(kind="cuda", name="Some GPU", versions=VERSIONS)
CPU = Device(kind="cpu", name="Some Processor", versions=VERSIONS)
MOCK = Device(kind="mock", name="mock")

PLUGIN = """
from collections.abc import Iterator
from pathlib import Path

from kernel_env.server.checks.findings import Finding
from kernel_env.server.checks.program import Program
from kernel_env.server.languages import Language


def tiles(program: Program) -> Iterator[Finding]:
    if "tiles" not in program.root.imports:
        yield Finding(0, "kernel-missing", "there is no kernel: import tiles")


LANGUAGE = Language(
    name="tiles",
    title="Tiles",
    how="Kernels are tiles.",
    brief="tiles",
    prompt=Path(__file__).with_name("tiles.md"),
    rules=(tiles,),
    marks=r"^import tiles$",
    imports=frozenset({"tiles"}),
    package="tiles-of-the-future",
    extra="tiles-of-the-future",
)
"""
PROMPT = "# $task_id in Tiles\n\n$reference\n\n$rules\n$judging\n"
MODEL = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder to import from, as if a distribution with a language were installed there."""
    (tmp_path / "tiles_language.py").write_text(PLUGIN)
    (tmp_path / "tiles.md").write_text(PROMPT)
    distribution = tmp_path / "tiles_language-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: tiles-language\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(f"[{languages.GROUP}]\ntiles = tiles_language:LANGUAGE\n")
    return tmp_path


def python(code: str, folder: Path) -> str:
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.fixture
async def pool(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalPool]:
    """Workers that find the plug-in, which runs on a CPU and has a runtime that fails."""
    (plugin / "tiles_runtime.py").write_text("def prepare():\n    raise ImportError('tiles is of another time')\n")
    needs = 'package="tiles-of-the-future",'
    text = PLUGIN.replace(needs, 'devices=("cpu",), runtime="tiles_runtime",')
    (plugin / "tiles_language.py").write_text(text)
    monkeypatch.syspath_prepend(plugin)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(plugin), os.environ.get("PYTHONPATH")))))
    languages.registry.cache_clear()
    async with started(Settings(evaluator="cpu", trials=1)) as pool:
        yield pool
    languages.registry.cache_clear()


async def test_a_runtime_that_fails_is_no_fault_of_the_submission(pool: LocalPool) -> None:
    code = "import tiles\n" + MODEL
    outcome = (await evaluated(pool, code, language="tiles", budget_s=60.0)).outcome
    assert isinstance(outcome, Infrastructure), outcome
    assert "tiles is of another time" in outcome.message
    assert (await evaluated(pool, RIGHT, budget_s=60.0)).outcome.kind == "passed"


def test_what_each_device_runs() -> None:
    assert languages.runnable(GPU) == ("triton", "cuda")
    assert languages.runnable(CPU) == ("triton", "cpp")
    assert languages.runnable(MOCK) == languages.known()
    with_helion = {**VERSIONS, "helion": "1.5.1"}
    assert "helion" in languages.runnable(GPU.model_copy(update={"versions": with_helion}))


@pytest.mark.parametrize(
    ("name", "device", "told"),
    [
        ("cuda", CPU, "There is no CUDA device here.*use one of: triton, cpp"),
        ("cpp", GPU, "cannot read.*use one of: triton, cuda"),
        ("helion", GPU, r"not installed: pip install 'openenv-kernel_env\[helion\]'.*use one of: triton, cuda"),
        ("rust", GPU, "unknown language 'rust'; use one of: triton, cuda, cpp, helion"),
    ],
)
def test_what_does_not_run_is_told_with_what_does(name: str, device: Device, told: str) -> None:
    with pytest.raises(LanguageError, match=told):
        languages.check_runnable(name, device)


def test_a_server_names_the_extra_that_is_missing(launch: Launch) -> None:
    server = launch(scripted=True, DEVICE="cuda")
    with server.connect() as wire:
        frame = wire.ask("reset", {"language": "helion"})
    assert frame["data"]["code"] == "VALIDATION_ERROR"
    assert "openenv-kernel_env[helion]" in frame["data"]["message"]
    server.stop()


def test_the_registry_is_light() -> None:
    code = (
        "import sys; from kernel_env.server import languages; languages.known();"
        "print(sorted({'torch', 'triton', 'helion', 'openenv'} & set(sys.modules)))"
    )
    assert python(code, Path.cwd()) == "[]\n"


def test_a_plugin_is_a_language_like_ours(plugin: Path) -> None:
    code = f"""
from kernel_env.server import languages
from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.outcome import Device
from kernel_env.server.problem import problem_text
from kernel_env.server.tasks import TaskSet

model = {MODEL!r}
print(languages.known()[-1], languages.guess("import tiles"))
print(check(model, "tiles", 9999).rule, check("import tiles\\n" + model, "tiles", 9999))
lacking = Device(kind="cuda", name="Some GPU")
device = lacking.model_copy(update={{"versions": {{"tiles-of-the-future": "1.0"}}}})
print("tiles" in languages.runnable(device), "tiles" in languages.runnable(lacking))
text = problem_text(TaskSet.load(Settings()).get("level1/e01_RowSoftmax"), "tiles", Settings(), device)
print(text.splitlines()[0], "tiles-of-the-future 1.0" in text, "CUDA events" in text)
"""
    assert python(code, plugin).splitlines() == [
        "tiles tiles",
        "kernel-missing None",
        "True False",
        "# level1/e01_RowSoftmax in Tiles True True",
    ]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nothing_of_this_name", "the language tiles (tiles_language:LANGUAGE) can't be loaded"),
        ("LANGUAGE = 3", "is no kernel_env.server.languages.Language with a name of its own"),
        (PLUGIN.replace('name="tiles"', 'name="triton"'), "with a name of its own"),
    ],
)
def test_a_broken_plugin_is_named(plugin: Path, code: str, told: str) -> None:
    (plugin / "tiles_language.py").write_text(code)
    errors = python("from kernel_env.server import languages; languages.known()", plugin)
    assert "LanguageError" in errors
    assert told in errors
