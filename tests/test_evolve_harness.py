"""The loop as openenv's harness: a trainer samples, the environment judges and rewards, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openenv.core.harness import (
    HarnessAdapter,
    HarnessRunLimits,
    ModelStepResult,
    build_harness_rollout_func,
)
from openenv.core.llm_client import LLMResponse

from kernel_env.evolve import ConfigError, EvolveHarness, LLMConfig, Metrics
from kernel_env.evolve.evaluator import GPUEvaluator
from kernel_env.evolve.harness import KernelSessionFactory
from kernel_env.server.config import Settings
from kernel_env.server.tasks import TaskSet

from .conftest import Launch
from .endpoint import serving
from .evolving import TASK, evolve
from .serving import CODE, Server, scripted

GOOD = f"Idea: double\n```python\n{CODE}\n```"


@pytest.fixture(scope="module")
def closed(launch: Launch) -> Server:
    """Takes no tasks of its clients."""
    return launch(scripted=True)


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_MAX_TURNS="3", KERNEL_ENV_USER_TASKS="true")


def different(number: int, **words: object) -> str:
    """Words stand in a comment, which makes no other program."""
    return f"{scripted(**words)}\nNUMBER = {number}\n"


def sampling(*texts: str) -> Any:
    """A trainer's model: these answers, one after the other, with token ids."""
    left = list(texts)

    def step(messages: Any, tools: Any, options: Any) -> ModelStepResult:
        assert messages[-1]["role"] == "user"
        return ModelStepResult(LLMResponse(left.pop(0)), [1, 2], [3], [-0.5])

    return step


def test_a_trainer_owns_the_sampling(server: Server) -> None:
    factory = KernelSessionFactory(server.url)
    session = factory.create("level1/e01_RowSoftmax")
    fast = f"```python\n{scripted(speedup=4.0)}\n```"
    try:
        harness: HarnessAdapter = EvolveHarness()
        result = harness.run_white_box(sampling("no program here", GOOD, fast, fast), session)
        verified = session.verify(result.messages)
    finally:
        session.close()
    assert result.done
    assert result.metrics == {"turns": 4, "tool_calls": 3}
    assert len(result.prompt_ids) == 8
    assert "holds no program" in result.messages[3]["content"]
    assert "Speedup" in result.messages[5]["content"]
    assert result.tool_trace[-1].result.metadata["reward"] == pytest.approx(2.3)
    assert verified.env_reward == pytest.approx(2.3)


def test_a_fault_of_the_environment_has_no_reward(server: Server) -> None:
    session = KernelSessionFactory(server.url).create("level1/e01_RowSoftmax")
    lost = f"```python\n{scripted(fail=True)}\n```"
    try:
        result = EvolveHarness().run_white_box(sampling(lost, GOOD), session, HarnessRunLimits(max_turns=2))
    finally:
        session.close()
    rewards = [entry.result.metadata["reward"] for entry in result.tool_trace]
    assert rewards[:2] == [None, None]
    assert rewards[2] > 0.0
    assert not result.done


def test_as_a_rollout_function(server: Server) -> None:
    rollout = build_harness_rollout_func(
        session_factory=KernelSessionFactory(server.url),
        harness_adapter=EvolveHarness(),
        model_step_builder=lambda trainer, session: sampling(GOOD),
        limits=HarnessRunLimits(max_turns=1),
    )
    found = rollout(["level1/e01_RowSoftmax"], None)
    assert found["completion_ids"] == [[3]]
    assert found["env_reward"][0] > 0.0


def test_a_black_box_asks_its_own_model(server: Server) -> None:
    session = KernelSessionFactory(server.url).create("level1/e01_RowSoftmax")
    try:
        with pytest.raises(ConfigError, match="LLMConfig"):
            EvolveHarness().run_black_box(session)
        with serving(lambda body, number: GOOD) as endpoint:
            config = LLMConfig(model_name="scripted", api_key="none", base_url=endpoint.url)
            result = EvolveHarness(config).run_black_box(session)
    finally:
        session.close()
    assert result.done
    assert result.metrics["tool_calls"] == 3 == len(endpoint.requests)


# A running server as the evaluator.


def test_a_server_evaluates_a_task_of_ones_own(server: Server, tmp_path: Path) -> None:
    with serving(lambda body, number: f"```python\n{different(number, speedup=2.0 + number)}\n```") as endpoint:
        config = {"budget": {"calls": 3}, "parallel": {"llm": 1}}
        result = evolve(endpoint, tmp_path, config, GPUEvaluator(server.url))
    assert result.best is not None
    assert result.best.speedup == pytest.approx(4.0)
    assert any("made up" in note for note in result.notes)
    problem = endpoint.requests[0]["messages"][1]["content"]
    assert "torch.diag(A) @ B + D" in problem
    assert "How it is judged" in problem


def test_a_lost_evaluation_is_tried_again_elsewhere(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kernel_env.evolve.bench.BETWEEN_S", 0.0)
    texts = [different(0, fail=True), different(1, speedup=3.0)]
    with serving(lambda body, number: f"```python\n{texts[min(number, 1)]}\n```") as endpoint:
        config = {"budget": {"calls": 2}, "parallel": {"llm": 1}}
        result = evolve(endpoint, tmp_path, config, GPUEvaluator(server.url))
    assert [node.stage for node in result.history] == ["infrastructure", "passed"]


def test_a_server_that_takes_no_tasks_says_so(closed: Server, tmp_path: Path) -> None:
    with serving(lambda body, number: GOOD) as endpoint:
        with pytest.raises(ConfigError, match="KERNEL_ENV_USER_TASKS"):
            evolve(endpoint, tmp_path / "a", {"budget": {"calls": 1}}, GPUEvaluator(closed.url))
        with pytest.raises(ConfigError, match="has another text"):
            evolve(endpoint, tmp_path / "b", evaluator=GPUEvaluator(closed.url, task_id="level1/e01_RowSoftmax"))
    assert not endpoint.requests


def test_a_task_that_comes_along_is_checked_first(server: Server, closed: Server) -> None:
    with server.connect() as wire:
        opening = wire.reset(task_source=TASK)
        assert opening["observation"]["task_id"].startswith("user/")
        assert wire.reset(task_source=TASK)["observation"]["task_id"] == opening["observation"]["task_id"]
        assert (
            wire.refused("reset", {"task_source": TASK, "task_id": "level1/e01_RowSoftmax"}) == "VALIDATION_ERROR"
        )
        assert wire.refused("reset", {"task_source": "class Model: pass"}) == "VALIDATION_ERROR"
        assert wire.refused("reset", {"task_source": 5}) == "VALIDATION_ERROR"
        assert wire.refused("reset", {"task_source": "#" * (1 << 20) + "#"}) == "VALIDATION_ERROR"
    with closed.connect() as wire:
        assert wire.refused("reset", {"task_source": TASK}) == "USER_TASKS_OFF"


async def test_one_evaluation(server: Server) -> None:
    async with GPUEvaluator(server.url) as evaluator:
        metrics = await evaluator.evaluate(TASK, scripted(speedup=2.5))
    assert isinstance(metrics, Metrics)
    assert (metrics.speedup, metrics.correct, metrics.mock) == (2.5, True, True)
    lost = await GPUEvaluator("http://127.0.0.1:9").evaluate(TASK, CODE)
    assert lost.infrastructure


async def test_a_task_of_the_server_by_its_id(closed: Server) -> None:
    name = "level1/e01_RowSoftmax"
    source = TaskSet.load(Settings()).get(name).source
    async with GPUEvaluator(closed.url, task_id=name) as evaluator:
        assert source.strip() in await evaluator.problem(source)
        metrics = await evaluator.evaluate(source, scripted(speedup=2.5))
    assert (metrics.speedup, metrics.correct) == (2.5, True)
