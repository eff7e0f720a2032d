"""The programs of examples/ that need no large trainer, on a server whose evaluator is scripted."""

from __future__ import annotations

import asyncio
import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

from .conftest import Launch
from .endpoint import Body, serving
from .examples import FOLDER, run_example
from .serving import Server, scripted

TASK_ID = "level1/e02_SiLU"


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_USER_TASKS="true")


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """A slow one that is right, a fast one, and one that the environment fails to judge."""
    folder = tmp_path / "answers"
    folder.mkdir()
    texts = scripted(speedup=0.9, sleep=1.0), scripted(speedup=2.0, sleep=1.0), scripted(fail=True)
    for name, text in zip("abc", texts, strict=True):
        (folder / f"{name}.py").write_text(text)
    return folder


def test_32_sessions_at_once_with_faults_left_out(server: Server, answers: Path, tmp_path: Path) -> None:
    done = run_example("async_rollouts.py", "--url", server.url, "--answers", str(answers), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    groups = re.findall(
        r"^group (\d)  judged (\d)/8  reward (\S+)  best advantage (\S+)$", done.stdout, re.MULTILINE
    )
    assert [number for number, *_ in groups] == ["0", "1", "2", "3"], done.stdout
    steps = server.events("step")
    seconds = re.search(r"^32 sessions in (\S+) s$", done.stdout, re.MULTILINE)
    assert seconds is not None
    episodes = {event["episode_id"] for event in steps}
    judged = [event for event in steps if event["stage"] == "passed"]
    assert float(seconds[1]) < len(judged), "each is judged for a second, all side by side"
    faults = {event["episode_id"] for event in steps} - {event["episode_id"] for event in judged}
    assert len(judged) + len(faults) / 2 == 32, "a fault is played in a second episode, and then given up"
    assert len(episodes) == len(judged) + len(faults)
    assert sum(int(number) for _, number, *_ in groups) == len(judged) < 32
    rewards = [event["reward"] for event in judged]
    assert min(rewards) < 0.3 < max(rewards)
    means = [float(mean) for *_, mean, _ in groups]
    assert min(rewards) < min(means), "a fault has not pulled a mean down"
    tasks = {event["task_id"] for event in steps}
    assert len(tasks) == 4, "each group has a task of its own"


def test_turns_with_feedback(server: Server, tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        told = body["messages"][-1]["content"]
        if number == 0:
            assert "ModelNew" in told
            return "```python\nimport torch\n```"
        assert "ModelNew" in told if number == 1 else "Speedup 1.5x" in told, told
        return f"```python\n{scripted(speedup=1.0 + number / 2)}\n```"

    with serving(policy) as endpoint:
        arguments = "--url", server.url, "--model", "scripted", "--enough", "2.0"
        environ = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": endpoint.url}
        done = run_example("multi_turn.py", *arguments, cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    turns = re.findall(r"^turn (\d)  (\S+) +speedup (\S+)", done.stdout, re.MULTILINE)
    assert turns == [("1", "format", "-"), ("2", "passed", "1.50x"), ("3", "passed", "2.00x")]
    assert "best reward 1.300" in done.stdout


def test_what_was_not_judged_has_no_reward(server: Server) -> None:
    rewards = runpy.run_path(str(FOLDER / "trl_reward.py"))["rewards"]
    answers = [[{"role": "assistant", "content": code}] for code in (scripted(fail=True), scripted(speedup=2.0))]
    assert asyncio.run(rewards(server.url, answers, [TASK_ID] * 2)) == [None, pytest.approx(1.3)]


def test_an_episode_for_trl(launch: Launch) -> None:
    episode = runpy.run_path(str(FOLDER / "trl_grpo.py"))["KernelEpisode"]
    server = launch(scripted=True, KERNEL_ENV_MAX_TURNS="2")

    async def played(*codes: str) -> float | None:
        one = episode(server.url)
        one.reset(task_id=TASK_ID, prompt="ignored")
        told = await asyncio.gather(*map(one.submit, codes))
        assert len(told) == len(codes)
        reward: float | None = await one.get_reward()
        return reward

    assert asyncio.run(played()) == 0.0
    assert asyncio.run(played(scripted(speedup=2.0), scripted(speedup=4.0), scripted())) == pytest.approx(2.3)
    assert asyncio.run(played(scripted(speedup=2.0), scripted(fail=True))) is None
    assert asyncio.run(played(scripted(fail=True), scripted(speedup=2.0))) == pytest.approx(1.3)

    async def without_server() -> float | None:
        one = episode(server.url)
        one.reset(task_id=TASK_ID)
        with pytest.raises(ConnectionError):
            await one.submit(scripted())
        reward: float | None = await one.get_reward()
        return reward

    server.stop()
    assert asyncio.run(without_server()) is None


def test_a_task_of_its_own_is_evolved(server: Server, tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        return f"```python\n{scripted(speedup=1.0 + number).replace('1024', str(1024 + number))}\n```"

    with serving(policy) as endpoint:
        arguments = "--model", "scripted", "--base-url", endpoint.url, "--server", server.url, "--evaluations", "6"
        done = run_example("evolve_diagonal.py", *arguments, cwd=tmp_path, OPENAI_API_KEY="none")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert re.search(r"^\d\.00x, confirmed \d times; \S+", done.stdout, re.MULTILINE), done.stdout
    assert "class ModelNew" in done.stdout


@pytest.mark.skipif(find_spec("skyrl_gym") is None, reason="needs the extra skyrl")
def test_an_episode_of_skyrl(server: Server, answers: Path, tmp_path: Path) -> None:
    done = run_example("skyrl_kernels.py", "--url", server.url, "--answers", str(answers), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"^(\w)\.py  (\w+) +reward (\S+)  done (\w+)$", done.stdout, re.MULTILINE) == [
        ("a", "passed", "0.148", "False"),
        ("b", "passed", "1.152", "False"),
        ("c", "infrastructure", "0.000", "True"),
    ], done.stdout
    assert "best reward 1.300" in done.stdout
