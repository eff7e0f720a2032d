"""Episodes: turns, faults of ours, the best so far, picks of tasks, and what a device can run."""

from __future__ import annotations

import math

import pytest

from .conftest import Launch
from .serving import CODE, Server, scripted


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_MAX_TURNS="3")


def test_a_step_before_reset_changes_nothing(server: Server) -> None:
    with server.connect() as wire:
        assert wire.refused("step", {"code": CODE}) == "NOT_RESET"
        assert wire.state()["step_count"] == 0
        wire.reset()
        assert wire.step(CODE)["observation"]["turn"] == 1


def test_an_episode_ends_after_max_turns(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        assert [wire.step(CODE)["done"] for _ in range(3)] == [False, False, True]
        assert wire.refused("step", {"code": CODE}) == "EPISODE_DONE"
        state = wire.state()
        assert (state["step_count"], state["turn"], state["done"]) == (3, 3, True)
        assert wire.reset()["done"] is False
        assert wire.state()["step_count"] == 0


def test_code_may_come_in_a_fence(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        bare, fenced = wire.step(CODE), wire.step(f"Here it is:\n```python\n{CODE}```\nDone.")
    assert fenced["observation"]["stage"] == "passed"
    assert bare["observation"]["stage"] == "passed"


def test_the_best_of_the_episode(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        steps = [wire.step(scripted(speedup=2.0)), wire.step(scripted(speedup=1.0)), wire.step("x = 1")]
    assert [step["reward"] for step in steps] == [pytest.approx(1.3), pytest.approx(0.3), 0.0]
    assert [step["observation"]["best_speedup"] for step in steps] == [2.0, 2.0, 2.0]
    assert [step["observation"]["best_reward"] for step in steps] == [pytest.approx(1.3)] * 3


def test_untimed_and_infinite_speedups_give_finite_rewards(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        untimed, infinite = wire.step(scripted(speedup="none")), wire.step(scripted(speedup="inf"))
    assert (untimed["reward"], untimed["observation"]["speedup"]) == (0.3, None)
    assert (infinite["reward"], infinite["observation"]["speedup"]) == (pytest.approx(3.3), None)


def test_a_measurement_that_is_none_is_our_fault(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        step = wire.step(scripted(speedup="nan"))
    assert (step["observation"]["stage"], step["reward"]) == ("infrastructure", 0.0)
    assert step["observation"]["infrastructure_fault"] is True


def test_our_faults_use_up_no_turn(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        fault = wire.step(scripted(fail=True))
        assert (fault["observation"]["stage"], fault["observation"]["turn"]) == ("infrastructure", 0)
        assert fault["observation"]["infrastructure_fault"] is True
        assert fault["observation"]["correct"] is False
        assert math.isfinite(fault["reward"])
        assert fault["done"] is False
        passed = wire.step(CODE)
        assert (passed["observation"]["turn"], passed["observation"]["infrastructure_fault"]) == (1, False)
        assert wire.state()["step_count"] == 2


def test_a_row_of_faults_ends_the_episode(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        done = [wire.step(scripted(fail=True))["done"] for _ in range(8)]
    assert done == [False] * 7 + [True]


def test_a_bug_of_ours_is_an_error_without_details(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        frame = wire.ask("step", {"code": scripted(**{"raise": True}), "metadata": {"request_id": "a"}})
        assert frame["data"]["code"] == "EXECUTION_ERROR"
        assert "secret" not in frame["data"]["message"]
        assert wire.state()["turn"] == 0
        assert wire.step(CODE, request_id="a2")["observation"]["turn"] == 1
    assert "a bug under" in server.stderr.read_text()


def test_seeds_pick_tasks(server: Server) -> None:
    with server.connect() as wire:
        picks = [wire.reset(seed=seed)["observation"]["task_id"] for seed in (0, 1, 2, 3, 4, 0, 1, 2, 3, 4)]
        assert picks[:5] == picks[5:]
        assert len(set(picks)) > 2
        evals = {wire.reset(seed=seed, split="eval")["metadata"]["split"] for seed in range(5)}
        assert evals == {"eval"}
        assert wire.reset(seed=0, task_id="level1/e02_SiLU")["observation"]["task_id"] == "level1/e02_SiLU"


def test_a_refused_reset_leaves_the_episode(server: Server) -> None:
    with server.connect() as wire:
        wire.reset(episode_id="first")
        wire.step(CODE)
        assert wire.refused("reset", {"split": "test"}) == "VALIDATION_ERROR"
        state = wire.state()
    assert (state["episode_id"], state["turn"]) == ("first", 1)


@pytest.mark.parametrize(
    ("device", "language", "works"), [("cpu", "cuda", "triton, cpp"), ("cuda", "cpp", "triton, cuda")]
)
def test_languages_that_the_device_cannot_run(launch: Launch, device: str, language: str, works: str) -> None:
    server = launch(scripted=True, DEVICE=device)
    with server.connect() as wire:
        frame = wire.ask("reset", {"language": language})
        assert frame["data"]["code"] == "VALIDATION_ERROR"
        assert works in frame["data"]["message"]
        assert wire.reset(language="triton")["observation"]["mock"] is False
    server.stop()


def test_a_server_whose_device_is_not_ready(launch: Launch) -> None:
    server = launch(scripted=True, DEVICE="")
    assert server.get("/ready").status_code == 503
    assert (server.health()["status"], server.health()["state"]) == ("healthy", "starting")
    with server.connect() as wire:
        frame = wire.ask("reset", {})
        assert frame["data"]["code"] == "SERVER_STARTING"
        assert "b.log" in frame["data"]["message"]
        assert "/srv" not in frame["data"]["message"]
        assert wire.state()["step_count"] == 0
    assert server.post("/kernel_env/tasks", {"split": "train"}).status_code == 503
    server.stop()
