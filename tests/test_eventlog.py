"""The event log: every reward can be computed again from its line alone, and no log fault hurts a step."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from kernel_env.server.outcome import Outcome
from kernel_env.server.reward import reward

from .conftest import Launch
from .serving import CODE, SCRIPTED, Server, scripted

OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


def play(server: Server) -> list[dict[str, Any]]:
    with server.connect() as wire:
        steps = [wire.reset(seed=3, episode_id="logged")]
        for code in (scripted(speedup=4.0), scripted(speedup="none"), "x = (", scripted(fail=True), "x = 1"):
            steps.append(wire.step(code, request_id=f"r{len(steps)}"))
        return steps


@pytest.mark.parametrize(("kind", "code"), [("speedup", "false"), ("roofline", "true")])
def test_rewards_are_rebuilt_from_the_log(launch: Launch, tmp_path: Path, kind: str, code: str) -> None:
    log = tmp_path / "new" / "events.jsonl"
    settings = {"KERNEL_ENV_REWARD": kind, "KERNEL_ENV_EVAL_LOG_CODE": code}
    server = launch(scripted=True, KERNEL_ENV_EVAL_LOG=str(log), **settings)
    seen = play(server)
    server.stop()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines == server.events()
    assert [line["event"] for line in lines] == ["reset", *["step"] * 5]
    reset, *steps = lines
    assert (reset["seed"], reset["episode_id"]) == (3, "logged")
    for line, observation in zip(steps, seen[1:], strict=True):
        assert reward(OUTCOME.validate_python(line["outcome"]), line["reward_kind"]) == line["reward"]
        assert line["reward_kind"] == kind
        assert line["reward"] == observation["reward"]
        for name in ("turn", "stage"):
            assert line[name] == observation["observation"][name]
        for name in ("request_id", "code_hash", "durations", "device", "versions", "seeds_digest", "task_hash"):
            assert line[name] == observation["metadata"][name]
        assert (line["task_id"], line["task_hash"]) == (reset["task_id"], reset["task_hash"])
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
        assert line["wall_s"] >= 0
    assert [line["stage"] for line in steps] == ["passed", "passed", "compile", "infrastructure", "format"]
    assert [line["done"] for line in steps] == [False] * 4 + [True]
    assert steps[0]["speedup"] == 4.0
    assert steps[0]["speedup_low"] > 0
    told = [seen[0]["observation"]["problem"], "x = 1"] if code == "true" else [None, None]
    assert [reset.get("problem"), steps[-1].get("code")] == told


def test_the_log_holds_no_token_that_resumes(launch: Launch) -> None:
    server = launch(scripted=True)
    with server.connect() as wire:
        token = wire.reset()["metadata"]["session"]
        wire.cut()
    server.wait_for(5.0, active_sessions=0)
    with server.connect(resume=token) as wire:
        wire.step(CODE)
    server.stop()
    assert token not in server.stdout.read_text()
    assert token not in server.stderr.read_text()


def test_lines_are_appended(launch: Launch, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text('{"event":"earlier"}\n')
    server = launch(KERNEL_ENV_EVAL_LOG=str(log))
    with server.connect() as wire:
        wire.reset()
    server.stop()
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["earlier", "reset"]


def test_a_log_that_cannot_be_written_is_reported_once_and_hurts_no_step(launch: Launch) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    server = launch(scripted=True, KERNEL_ENV_EVAL_LOG="/dev/full")
    assert len(play(server)) == 6
    server.stop()
    assert server.stderr.read_text().count("No space left on device") == 1
    assert len(server.events("step")) == 5


def test_a_reader_that_never_reads_stops_no_step(tmp_path: Path) -> None:
    """Stdout is a pipe that nobody reads: more than it holds is logged, and steps go on."""
    reading, writing = os.pipe()
    server = Server((SCRIPTED,), {"KERNEL_ENV_MAX_TURNS": "1000"}, tmp_path, stdout=writing)
    os.close(writing)
    try:
        server.wait_until_up()
        with server.connect() as wire:
            wire.reset()
            for _ in range(200):
                wire.step(CODE)
    finally:
        server.stop()
        os.close(reading)
    assert "Traceback" not in server.stderr.read_text()
