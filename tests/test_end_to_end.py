"""The main job as a trainer sees it: real server, real client, real evaluator on the CPU.

One server judges everything here, in order, so that each submission also proves that the one before it left
nothing behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import httpx
import pytest

from kernel_env import KernelAction, KernelEnv, KernelObservation, RequestError

from .conftest import Launch
from .submissions import RIGHT, TASK, in_forward, returning, vary


@pytest.fixture(scope="module")
def url(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "softmax.py").write_text(TASK)
    (folder / "impossible.py").write_text(TASK.replace("dim=1", "dim=7"))
    server = launch(
        KERNEL_ENV_EVALUATOR="cpu",
        KERNEL_ENV_TASKS=f"embedded,{folder}",
        KERNEL_ENV_MAX_TURNS="20",
        KERNEL_ENV_TRIALS="2",
        KERNEL_ENV_CORRECTNESS_TIMEOUT_S="10",
    )
    return server.url


@pytest.fixture(scope="module")
def env(url: str) -> Iterator[KernelEnv]:
    with KernelEnv(base_url=url).sync() as env:
        first = env.reset(task_id="user/softmax").observation
        assert "torch.softmax" in first.problem
        assert first.max_turns == 20
        yield env


def submit(env: KernelEnv, code: str) -> KernelObservation:
    result = env.step(KernelAction(code=code))
    assert result.reward is not None
    assert result.observation.reward == result.reward
    return result.observation


FAULTS = {
    "wrong": (
        vary("/ tl.sum(value, axis=0)", "/ (1.05 * tl.sum(value, axis=0))"),
        "correctness",
        "elements are off",
    ),
    "syntax error": (vary("def forward(self, x):", "def forward(self, x:"), "compile", "line 20"),
    "no ModelNew": (vary("class ModelNew", "class Model"), "format", "ModelNew"),
    "endless wait": (in_forward("import time; time.sleep(1000)"), "correctness", "10 s"),
    "segfault": (vary("tl.store(y + row", "tl.store(y + (1 << 44) + row"), "correctness", "SIGSEGV"),
    "exit": (in_forward("import os; os._exit(0)"), "format", "os._exit"),
    "torch.softmax": (returning("torch.softmax(x, 1)"), "format", "softmax"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_stage_and_the_next_submission_works(env: KernelEnv, name: str) -> None:
    code, stage, text = FAULTS[name]
    observation = submit(env, code)
    assert observation.stage == stage, observation.feedback
    assert text in observation.feedback
    assert observation.reward == 0.0
    assert not observation.correct
    assert not observation.infrastructure_fault
    right = submit(env, RIGHT)
    assert right.stage == "passed", right.feedback
    assert right.reward == 0.3
    assert right.speedup is None
    assert "interpreter" in right.feedback


def test_a_hundred_megabytes_of_output_do_no_harm(env: KernelEnv) -> None:
    observation = submit(env, in_forward("print('x' * 20_000_000)"))
    assert observation.stage == "passed"
    assert len(observation.feedback) < 5000


def test_a_fenced_answer_is_unwrapped(env: KernelEnv) -> None:
    observation = submit(env, f"Here it is:\n\n```python\n{RIGHT}\n```\nIt is a softmax.")
    assert observation.stage == "passed"


def test_stages_are_told_while_it_runs(env: KernelEnv, url: str) -> None:
    episode = env.state().episode_id
    seen: set[str] = set()
    on_device: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=url, trust_env=False) as http:
            while not over.wait(0.02):
                seen.add(http.get("/web/kernels/progress", params={"episode": episode}).json()["stage"])
                on_device.update(http.get("/health").json()["devices"][0]["stages"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        observation = submit(env, in_forward("import time; time.sleep(0.3)"))
    finally:
        over.set()
        watcher.join()
    assert observation.stage == "passed", observation.feedback
    assert "correctness" in seen & on_device
    assert (seen | on_device) - {""} <= set(observation.metadata["durations"])


@pytest.mark.slow
def test_a_faster_cpp_kernel_is_rewarded(url: str) -> None:
    code = Path(str(resources.files("kernel_env") / "demos" / "right_cpp.py")).read_text()
    with KernelEnv(base_url=url).sync() as env:
        env.reset(task_id="level2/e02_PolynomialActivation", language="cpp")
        observation = submit(env, code)
    assert observation.stage == "passed", observation.feedback
    assert observation.speedup is not None
    assert observation.speedup > 1.0
    assert observation.reward is not None
    assert observation.reward > 0.3
    assert observation.runtime_ms
    assert observation.ref_runtime_ms
    assert observation.ref_runtime_ms / observation.runtime_ms == pytest.approx(observation.speedup, rel=1e-3)
    assert observation.best_speedup == observation.speedup


def test_a_task_that_cannot_run_is_retired(url: str) -> None:
    with KernelEnv(base_url=url).sync() as env:
        env.reset(task_id="user/impossible")
        result = env.step(KernelAction(code=RIGHT))
        assert result.observation.stage == "infrastructure"
        assert result.observation.infrastructure_fault
        assert result.observation.turn == 0
        assert result.done
        assert "Dimension out of range" in result.observation.feedback
        with pytest.raises(RequestError, match="Dimension out of range"):
            env.reset(task_id="user/impossible")
        assert env.reset(task_id="user/softmax").observation.task_id == "user/softmax"
