"""Tasks that need `transformers` and its models, as KernelBench's level 4 does: availability, weights, verdicts.

The models are tiny and made here; nothing is fetched. What needs the package itself is skipped without it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_env.errors import RequestError, TaskUnavailableError, error_of
from kernel_env.server import model_cache
from kernel_env.server import outside as outside_module
from kernel_env.server.config import Settings
from kernel_env.server.outside import outside
from kernel_env.server.problem import problem_text
from kernel_env.server.tasks import SplitError, TaskSet, UnavailableTaskError

from .conftest import Launch

INSTALLED = importlib.util.find_spec("transformers") is not None
needs_package = pytest.mark.skipif(not INSTALLED, reason="needs the package transformers")

TASK = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM


class Model(torch.nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(model_name, config=config)

    def forward(self, x):
        return FORWARD


model_name = "NAME"
config = AutoConfig.from_pretrained(model_name)


def get_inputs():
    return [torch.randint(0, config.vocab_size, (2, 16))]


def get_init_inputs():
    return [model_name, config]
"""
PLAIN = """
class Model:
    pass

def get_inputs():
    return []

def get_init_inputs():
    return []
"""
LOOKUP = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows(x, table, y, WIDTH: tl.constexpr):
    at = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    tl.store(y + at * WIDTH + columns, tl.load(table + tl.load(x + at) * WIDTH + columns))


class ModelNew(nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model = nn.Module()
        self.model.transformer = nn.Module()
        self.model.transformer.wte = nn.Embedding(config.vocab_size, config.n_embd)

    def forward(self, x):
        table = self.model.transformer.wte.weight
        y = torch.empty((*x.shape, table.shape[1]), dtype=table.dtype, device=x.device)
        rows[(x.numel(),)](x, table, y, WIDTH=table.shape[1])
        return y
"""
TINY = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 211,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
}


def task_of(name: str | Path, forward: str = "self.model(x).logits") -> str:
    return TASK.replace("NAME", str(name)).replace("FORWARD", forward)


def fetched(cache: Path, name: str, *files: str) -> Path:
    """A repository in a hub's cache as the hub's client leaves it; its snapshot."""
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text("0" * 40)
    for file in ("config.json", *files):
        (snapshot / file).write_text(json.dumps(TINY))
    return snapshot


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and the package as if it were installed."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(outside_module, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=str)))
    return tmp_path / "hub"


@pytest.fixture
def level4(tmp_path: Path) -> Path:
    """A folder with a task of level 1, and one of level 4 whose model is not on this machine."""
    for name, source in (("level1/1_Plain", PLAIN), ("level4/1_Tiny", task_of("someone/tiny"))):
        file = tmp_path / "tasks" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return tmp_path / "tasks"


def load(folder: Path, evaluator: str = "cpu") -> TaskSet:
    return TaskSet.load(Settings(tasks=(str(folder),), evaluator=evaluator))  # type: ignore[arg-type]


def test_a_task_tells_which_models_it_needs(cache: Path) -> None:
    assert outside(PLAIN) is None
    assert outside(f"# not for transformers\n{PLAIN}") is None
    found = outside(task_of("someone/tiny") + "\nother = AutoConfig.from_pretrained('another')\n")
    assert found is not None
    assert found.models == ("someone/tiny", "another")
    only = outside(f"import transformers.utils\n{PLAIN}")
    assert only is not None
    assert (only.models, only.missing) == ((), None)


def test_without_the_package_a_task_is_unavailable(
    cache: Path, level4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(cache, "someone/tiny")
    monkeypatch.setattr(outside_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableTaskError, match=r"'level4/1_Tiny' is not available here: .*pip install"):
        load(level4).get("level4/1_Tiny")


def test_an_unavailable_task_is_listed_and_never_drawn(cache: Path, level4: Path) -> None:
    tasks = load(level4)
    assert [task.id for task in tasks.all()] == ["level1/1_Plain", "level4/1_Tiny"]
    assert tasks.ids() == ("level1/1_Plain",)
    with pytest.raises(UnavailableTaskError, match="kernel-env tasks fetch"):
        tasks.get("level4/1_Tiny")
    assert tasks.known("level4/1_Tiny").missing
    assert load(level4, "mock").get("level4/1_Tiny").missing is None


def test_the_problem_tells_of_the_weights(cache: Path, level4: Path) -> None:
    fetched(cache, "someone/tiny")
    tasks, settings = load(level4), Settings()
    assert "with random weights" in problem_text(tasks.get("level4/1_Tiny"), "triton", settings, None)
    assert "transformers" not in problem_text(tasks.get("level1/1_Plain"), "triton", settings, None)


def test_picks_are_the_same_with_and_without_the_model(cache: Path, level4: Path) -> None:
    fetched(cache, "someone/tiny")
    tasks = load(level4)
    assert tasks.get("level4/1_Tiny").outside is not None
    plain = tasks.get("level1/1_Plain")
    assert {tasks.pick(seed, plain.split).id for seed in range(20)} == {plain.id}
    assert tasks.pick(None, plain.split) == plain
    alone = load(level4 / "level4")
    split = alone.get("level4/1_Tiny").split
    assert alone.pick(0, split).id == "level4/1_Tiny"
    with pytest.raises(SplitError, match="holds no usable task"):
        alone.pick(0, "eval" if split == "train" else "train")


def test_weights_count_only_when_they_are_whole(cache: Path) -> None:
    assert not model_cache.has_config("someone/tiny")
    snapshot = fetched(cache, "someone/tiny")
    assert model_cache.has_config("someone/tiny")
    assert not model_cache.has_weights("someone/tiny")
    parts = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(parts))
    (snapshot / "model-1.safetensors").touch()
    assert not model_cache.has_weights("someone/tiny")
    (snapshot / "model-2.safetensors").touch()
    assert model_cache.has_weights("someone/tiny")
    for odd in ("", "a b", "/nowhere/at/all", "../..", "x" * 300):
        assert not model_cache.has_config(odd)


def test_evaluation_is_offline_and_gets_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kernel_env.server.sandbox import clean_environment, trusted_environment

    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for environment in (clean_environment({}), trusted_environment({})):
        assert environment["HF_HUB_OFFLINE"] == "1"
        assert environment["HF_HUB_CACHE"] == str(tmp_path / "hub")
        assert "HF_HOME" not in environment
        assert "secret" not in environment.values()


def test_a_reset_on_an_unavailable_task_is_a_typed_error(launch: Launch, level4: Path, tmp_path: Path) -> None:
    server = launch(
        scripted=True,
        DEVICE="cpu",
        KERNEL_ENV_EVALUATOR="cpu",
        KERNEL_ENV_TASKS=str(level4),
        HF_HUB_CACHE=str(tmp_path / "hub"),
    )
    with server.connect() as wire:
        frame = wire.ask("reset", {"task_id": "level4/1_Tiny"})
        assert frame["data"]["code"] == "TASK_UNAVAILABLE"
        assert "tasks fetch" in frame["data"]["message"] or "pip install" in frame["data"]["message"]
        assert wire.reset(task_id="level1/1_Plain")
    error = error_of("TASK_UNAVAILABLE", frame["data"]["message"])
    assert isinstance(error, TaskUnavailableError)
    assert isinstance(error, RequestError)
    listed = {}
    for split in ("train", "eval"):
        tasks = server.post("/kernel_env/tasks", {"split": split}).json()["tasks"]
        count = server.post("/kernel_env/num_tasks", {"split": split}).json()["num_tasks"]
        assert count == sum(task["available"] for task in tasks)
        listed |= {task["task_id"]: task for task in tasks}
    assert listed["level1/1_Plain"]["available"]
    assert listed["level4/1_Tiny"]["index"] is None
    assert listed["level4/1_Tiny"]["missing"]


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KERNEL", "HF_"))}
    return subprocess.run(
        [sys.executable, "-m", "kernel_env.cli", *arguments],
        env={**clean, "HF_HUB_OFFLINE": "1", **environ},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_the_commands_say_what_is_missing(level4: Path, tmp_path: Path) -> None:
    where = {"KERNEL_ENV_TASKS": str(level4), "HF_HUB_CACHE": str(tmp_path / "hub")}
    shown = command("tasks", "list", **where)
    assert shown.returncode == 0
    assert "unavailable: " in shown.stdout
    assert "0 of them broken, 1 unavailable here" in shown.stdout
    assert "AutoConfig" in command("tasks", "show", "level4/1_Tiny", **where).stdout
    for arguments in (("level4/1_Tiny",), ("--level", "4")):
        refused = command("tasks", "audit", *arguments, "--evaluator", "cpu", **where)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
    refused = command("tasks", "fetch", "level4/1_Tiny", **where)
    assert refused.returncode == 1
    assert "config.json of someone/tiny cannot be fetched" in refused.stderr
    fetched(tmp_path / "hub", "someone/tiny")
    done = command("tasks", "fetch", **where)
    assert done.stdout.strip() == "someone/tiny: configuration, random weights"


IN_THE_JUDGE = """
import sys, torch
from kernel_env.server.reference import Reference

source, folder = sys.argv[1:]
cpu = torch.device("cpu")
first, again, other = (Reference("level4/1_Tiny", source, cpu, seed) for seed in (1, 1, 2))
inputs = first.inputs(3)
expected = first(inputs)
assert expected.dtype == torch.float32
assert not first.model.model.training
assert torch.equal(expected, first(inputs))
assert torch.equal(expected, again(inputs))
assert not torch.allclose(expected, other(inputs), atol=0.1)
assert first.pickled_arguments()
biases = [value for name, value in first.state().items() if name.endswith("bias")]
assert biases and all(value.std() > 0.05 for value in biases)
first.model.model.save_pretrained(folder)
assert torch.equal(expected, other(inputs)) is False
assert torch.equal(expected, Reference("level4/1_Tiny", source, cpu, 2)(inputs)), "its own weights count"
"""


@needs_package
@pytest.mark.long
def test_weights_are_random_by_the_seed_unless_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_JUDGE, task_of(tmp_path), str(tmp_path)],
        env={**os.environ, **model_cache.environment()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@needs_package
@pytest.mark.long
@pytest.mark.slow
def test_a_model_from_the_cache_is_judged(tmp_path: Path) -> None:
    """The reference against itself and a submission that gets the configuration, through the whole path."""
    fetched(tmp_path / "hub", "someone/tiny")
    folder = tmp_path / "level4"
    folder.mkdir()
    (folder / "1_Tiny.py").write_text(task_of("someone/tiny"))
    (folder / "2_Lookup.py").write_text(task_of("someone/tiny", "self.model.transformer.wte(x)"))
    where = {"KERNEL_ENV_TASKS": str(folder), "HF_HUB_CACHE": str(tmp_path / "hub"), "KERNEL_ENV_EVALUATOR": "cpu"}
    audited = command("tasks", "audit", "level4/1_Tiny", "--json", **where)
    assert json.loads(audited.stdout.splitlines()[0])["verdict"] == "passed", audited.stdout + audited.stderr
    submission = tmp_path / "lookup.py"
    submission.write_text(LOOKUP)
    done = command("eval", str(submission), "--task", "level4/2_Lookup", "--json", **where)
    assert json.loads(done.stdout)["stage"] == "passed", done.stdout + done.stderr


def test_other_tasks_never_load_the_package() -> None:
    code = (
        "import sys, torch\n"
        "from kernel_env.server.reference import Reference\n"
        "source = 'import torch\\nclass Model(torch.nn.Module): pass\\n"
        "def get_inputs(): return []\\ndef get_init_inputs(): return []\\n'\n"
        "Reference('user/plain', source, torch.device('cpu'), 1)\n"
        "assert 'transformers' not in sys.modules and 'huggingface_hub' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
