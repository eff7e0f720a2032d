"""The problem text holds everything a model needs, and its examples are submissions of the form it asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kernel_env.extract import extract_code
from kernel_env.server.checks import check
from kernel_env.server.config import Settings
from kernel_env.server.languages import LanguageError, known
from kernel_env.server.outcome import Device
from kernel_env.server.peaks import Peak
from kernel_env.server.problem import problem_text
from kernel_env.server.tasks import TaskSet

SETTINGS = Settings(trials=7, atol=0.002, rtol=0.003, max_turns=9, build_timeout_s=123)
TASK = TaskSet.load(SETTINGS).get("level2/e01_BiasHardSwishResidual")
CPU = Device(kind="cpu", name="Some Processor (2 cores)", memory_bytes=8 << 30, versions={"torch": "2.9.0"})
GPU = Device(
    kind="cuda",
    name="Some GPU",
    capability="9.0",
    memory_bytes=141 << 30,
    versions={"torch": "2.9.0", "triton": "3.5.0"},
)
MOCK = Device(kind="mock", name="mock")


@pytest.mark.parametrize("device", [None, CPU, GPU, MOCK])
@pytest.mark.parametrize("language", known())
def test_the_text_is_complete(language: str, device: Device | None) -> None:
    text = problem_text(TASK, language, SETTINGS, device)
    assert TASK.source.strip() in text
    assert TASK.id in text
    for fact in ("7 trials", "0.002 + 0.003 * |expected|", "9 submissions", "123 s", "get_inputs()"):
        assert fact in text
    for rule in ("torch.compile", "CUDA graphs", "subprocess", "by name and shape", "torch.empty"):
        assert rule in text
    assert "$" not in text


def test_the_device_is_named() -> None:
    text = problem_text(TASK, "triton", SETTINGS, GPU)
    for fact in ("Some GPU", "compute capability 9.0", "141 GiB", "triton 3.5.0", "CUDA events"):
        assert fact in text
    assert "not known yet" in problem_text(TASK, "triton", SETTINGS, None)
    assert "made up" in problem_text(TASK, "triton", SETTINGS, MOCK)


def test_a_machine_without_cuda_says_what_is_not_measured() -> None:
    assert "interpreter" in problem_text(TASK, "triton", SETTINGS, CPU)
    assert "cannot be run" in problem_text(TASK, "cuda", SETTINGS, CPU)
    assert "wall clock" in problem_text(TASK, "cpp", SETTINGS, CPU)
    assert "cannot read" in problem_text(TASK, "cpp", SETTINGS, GPU)


def test_the_reward_is_the_one_of_the_settings() -> None:
    assert "0.3 + clamp(log2(speedup), -0.2, 3.0)" in problem_text(TASK, "triton", SETTINGS, GPU)
    roofline = problem_text(TASK, "triton", replace(SETTINGS, reward="roofline"), GPU)
    assert "0.3 + 2.7 * min(t_min / t_new, 1)" in roofline
    assert "log2" not in roofline
    assert "peak rates of this device are not known" in roofline


def test_known_peaks_need_no_words() -> None:
    settings = replace(SETTINGS, reward="roofline")
    known = GPU.model_copy(update={"name": "NVIDIA H200"})
    for text in (
        problem_text(TASK, "triton", settings, known),
        problem_text(TASK, "triton", replace(settings, peaks=Peak(1.0, 2.0, 3.0)), GPU),
        problem_text(TASK, "triton", settings, None),
        problem_text(TASK, "triton", SETTINGS, GPU),
    ):
        assert "not known, so" not in text


def test_a_reference_with_fences_and_dollars_stays_whole() -> None:
    source = '"""\n```python\nclass ModelNew: pass\n```\n$reference $$\n"""\n' + TASK.source
    text = problem_text(replace(TASK, source=source), "triton", SETTINGS, GPU)
    assert f"````python\n{source.strip()}\n````" in text


@pytest.mark.parametrize("language", ["Triton", "", "hip" * 100])
def test_an_unknown_language_names_the_choices(language: str) -> None:
    with pytest.raises(LanguageError, match="use one of: triton, cuda, cpp") as error:
        problem_text(TASK, language, SETTINGS, GPU)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize("language", known())
def test_the_example_passes_the_static_checks(language: str) -> None:
    code = extract_code(problem_text(TASK, language, SETTINGS, GPU))
    assert "class ModelNew(nn.Module)" in code
    assert check(code, cast(Any, language), SETTINGS.max_code_bytes) is None


def test_the_triton_example_is_right_in_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    code = extract_code(problem_text(TASK, "triton", SETTINGS, CPU))
    use = (
        "\nmodel, x = ModelNew(300), torch.randn(7, 300)\n"
        "with torch.no_grad():\n"
        "    torch.testing.assert_close(model(x), torch.relu(x * model.scale + model.shift))\n"
    )
    file = tmp_path / "example.py"
    file.write_text(code + use)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, str(file)], env=environment, timeout=120, check=True)
