"""`kernel-env baseline`: references timed by the product's own clock, in KernelBench's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_env.server.local import visible_gpus
from kernel_env.server.outcome import TaskSource
from kernel_env.toolkit import baselines
from kernel_env.toolkit.baselines import BaselineError
from kernel_env.toolkit.references import VARIANTS, Measured, Timings, code_of, file_of

from .commands import invoke
from .test_cli import DOUBLE, run

SOURCE = TaskSource(id="user/double", source=DOUBLE, hash="0")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "level1"
    folder.mkdir()
    (folder / "2_Double.py").write_text(DOUBLE)
    (folder / "10_Fails.py").write_text(DOUBLE.replace("return x * 2.0 + 1.0", "raise ValueError('unfit')"))
    return folder.parent


def test_references_are_timed_once(tasks: Path, tmp_path: Path) -> None:
    common = ("baseline", "-o", str(tmp_path), "--hardware", "here", "--tasks", str(tasks))
    own = (*common, "--evaluator", "cpu", "--modes", "eager")
    done = run(*own, KERNEL_ENV_TIMING_BUDGET_S="0.1")
    assert done.returncode == 1, done.stderr
    assert "level1/10_Fails eager: infrastructure" in done.stderr
    file = tmp_path / "here" / "baseline_time_torch.json"
    content = json.loads(file.read_text())
    assert list(content["level1"]) == ["2_Double.py"]
    stats = content["level1"]["2_Double.py"]
    assert stats["mean"] > 0
    assert stats["device"] == "cpu"
    assert stats["hardware"]
    (read,) = baselines.read(tmp_path / "here")
    assert read.means == {(1, 2): stats["mean"]}

    timings = Timings(file.parent, stats["hardware"])
    assert timings.has("level1/2_Double", "eager")
    assert not timings.has("level1/2_Double", "default")
    timings.take(Measured("level1/1_First", "eager", {**stats, "mean": 7.0}))
    timings.save()
    assert list(json.loads(file.read_text())["level1"]) == ["1_First.py", "2_Double.py"]
    with pytest.raises(BaselineError, match=r"was measured on .*, this is another"):
        Timings(file.parent, "another").has("level1/2_Double", "eager")
    assert not Timings(file.parent, "another", again=True).has("level1/2_Double", "eager")
    assert (stats["kernel_env"]["precision"], read.precisions) == ("fp32", ("fp32",))
    with pytest.raises(BaselineError, match=r"in fp32, this is .* in bf16"):
        Timings(file.parent, stats["hardware"], precision="bf16").has("level1/2_Double", "eager")
    narrow = Timings(file.parent, stats["hardware"], again=True, precision="bf16")
    narrow.take(Measured("level1/2_Double", "eager", stats))
    narrow.save()
    assert baselines.read(file.parent)[0].precisions == ("bf16",)
    for wrong in (("--modes", "fast"), ("--problems", "7"), ("--evaluator", "mock")):
        refused = invoke(*common, *wrong)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), wrong


def test_every_variant_has_kernelbench_s_file_name() -> None:
    assert [
        file_of(variant).removeprefix("baseline_time_torch").removesuffix(".json") for variant in VARIANTS
    ] == [
        "",
        "_compile_inductor_default",
        "_compile_inductor_reduce-overhead",
        "_compile_inductor_max-autotune",
        "_compile_inductor_max-autotune-no-cudagraphs",
        "_compile_cudagraphs",
    ]
    for variant in VARIANTS:
        compile(code_of(SOURCE, variant), variant, "exec")
    assert 'backend="inductor", mode="max-autotune"' in code_of(SOURCE, "max-autotune")


@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_measured_on_a_gpu(tasks: Path, tmp_path: Path, variant: str) -> None:
    own = ("baseline", "-o", str(tmp_path), "--hardware", "gpu", "--tasks", str(tasks), "--problems", "2")
    done = run(*own, "--modes", variant, "--evaluator", "gpu", timeout=280)
    assert done.returncode == 0, done.stderr
    stats = json.loads((tmp_path / "gpu" / file_of(variant)).read_text())["level1"]["2_Double.py"]
    assert 0 < stats["min"] <= stats["mean"] <= stats["max"]
    assert stats["device"] == "cuda:0"
