"""TRL on a real server: optimizer steps paid by its verdicts, in turns and at once, and fine-tuning on its log."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from .commands import invoke
from .conftest import Launch
from .examples import run_example
from .serving import Server

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="needs the extra trl")

TINY = "--tiny", "--steps", "2", "--learning-rate", "0.01"


class Step(NamedTuple):
    reward: float
    grad_norm: float


def run(example: str, *arguments: str, folder: Path) -> str:
    done = run_example(example, *arguments, *TINY, "--out", str(folder / "out"), cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def steps(stdout: str) -> list[Step]:
    found = re.findall(r"^step (\d)  reward (\S+)  grad_norm (\S+)$", stdout, re.MULTILINE)
    assert [number for number, *_ in found] == ["1", "2"], stdout
    return [Step(float(reward), float(norm)) for _, reward, norm in found]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log.jsonl"


@pytest.fixture(scope="module")
def server(launch: Launch, log: Path) -> Server:
    return launch(
        KERNEL_ENV_EVALUATOR="cpu",
        KERNEL_ENV_TRIALS="1",
        KERNEL_ENV_EVAL_LOG=str(log),
        KERNEL_ENV_EVAL_LOG_CODE="true",
    )


def test_grpo_steps_on_rewards_of_the_evaluator(server: Server, tmp_path: Path) -> None:
    options = "--url", server.url, "--generations", "4", "--turns", "2"
    taken = steps(run("trl_grpo.py", *options, folder=tmp_path))
    judged = server.events("step")
    assert len(judged) == 16, "two submissions in each of four rollouts of two steps"
    assert {event["stage"] for event in judged} == {"passed", "correctness"}
    assert {event["turn"] for event in judged} == {1, 2}
    best: dict[str, float] = {}
    for event in judged:
        best[event["episode_id"]] = max(best.get(event["episode_id"], 0.0), event["reward"])
    paid = list(best.values())
    assert len(paid) == 8
    assert [step.reward for step in taken] == [
        pytest.approx(sum(half) / 4, abs=1e-3) for half in (paid[:4], paid[4:])
    ]
    assert any(step.grad_norm > 0.0 for step in taken)


def test_the_log_of_that_run_is_data_for_fine_tuning(log: Path, tmp_path: Path) -> None:
    data = tmp_path / "sft.jsonl"
    exported = invoke("export", str(log), "-o", str(data))
    assert exported.returncode == 0, exported.stderr
    losses = re.findall(r"^step \d  loss (\S+)$", run("trl_sft.py", str(data), folder=tmp_path), re.MULTILINE)
    assert len(losses) == 2
    assert float(losses[1]) < float(losses[0])


def test_grpo_steps_on_a_reward_function(launch: Launch, tmp_path: Path) -> None:
    server = launch()
    options = "--url", server.url, "--generations", "8"
    taken = steps(run("trl_reward.py", *options, folder=tmp_path))
    rewards = [event["reward"] for event in server.events("step")]
    assert len(rewards) == 16
    assert [step.reward for step in taken] == [
        pytest.approx(sum(half) / 8, abs=1e-3) for half in (rewards[:8], rewards[8:])
    ]
    assert all(step.grad_norm > 0.0 for step in taken)
