"""The wire: golden frames for each message, and every way to send nonsense."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from .conftest import Launch
from .serving import CODE, Server

ROOT = Path(__file__).parents[1]

OBSERVATION_KEYS = [
    "metadata",
    "problem",
    "task_id",
    "language",
    "turn",
    "max_turns",
    "stage",
    "feedback",
    "correct",
    "speedup",
    "speedup_low",
    "speedup_high",
    "runtime_ms",
    "ref_runtime_ms",
    "compiled_runtime_ms",
    "samples",
    "launch_bound",
    "bound",
    "arithmetic_intensity",
    "t_min_ms",
    "roofline_frac",
    "ref_roofline_frac",
    "profile",
    "best_speedup",
    "best_reward",
    "infrastructure_fault",
    "mock",
]


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch()


def test_state_before_reset(server: Server) -> None:
    with server.connect() as wire:
        assert wire.ask("state") == {
            "type": "state",
            "data": {
                "episode_id": None,
                "step_count": 0,
                "task_id": "",
                "language": "triton",
                "split": "",
                "turn": 0,
                "max_turns": 4,
                "done": False,
            },
        }


def test_reset_frame(server: Server) -> None:
    with server.connect() as wire:
        frame = wire.ask("reset", {"seed": 7, "episode_id": "mine", "task_id": "level1/e01_RowSoftmax"})
    assert list(frame) == ["type", "data"]
    assert frame["type"] == "observation"
    data = frame["data"]
    assert list(data) == ["observation", "reward", "done", "metadata"]
    observation, metadata = data["observation"], data["metadata"]
    assert list(observation) == OBSERVATION_KEYS
    assert (data["reward"], data["done"]) == (None, False)
    assert observation["metadata"] == metadata
    assert observation["task_id"] == "level1/e01_RowSoftmax"
    assert (observation["stage"], observation["turn"], observation["feedback"]) == ("", 0, "")
    assert "class Model(nn.Module)" in observation["problem"]
    assert observation["mock"] is True
    assert (metadata["episode_id"], metadata["seed"]) == ("mine", 7)
    assert metadata["device"]["kind"] == "mock"
    assert metadata["versions"]["kernel_env"]
    assert len(metadata["task_hash"]) == 16
    assert len(metadata["session"]) >= 32


def test_step_frame(server: Server) -> None:
    with server.connect() as wire:
        wire.reset(task_id="level1/e01_RowSoftmax", episode_id="mine")
        frame = wire.ask("step", {"code": CODE, "metadata": {"request_id": "r1"}})
    assert frame["type"] == "observation"
    data = frame["data"]
    observation, metadata = data["observation"], data["metadata"]
    assert list(observation) == OBSERVATION_KEYS
    assert (observation["stage"], observation["turn"], observation["correct"]) == ("passed", 1, True)
    assert observation["speedup_low"] < observation["speedup"] < observation["speedup_high"]
    assert observation["speedup"] == pytest.approx(observation["ref_runtime_ms"] / observation["runtime_ms"])
    assert observation["best_speedup"] == observation["speedup"]
    assert observation["best_reward"] == data["reward"] > 0
    assert 0 < observation["ref_roofline_frac"] < 1
    assert (metadata["episode_id"], metadata["request_id"]) == ("mine", "r1")
    assert (metadata["outcome"], metadata["clock"], observation["samples"]) == ("passed", "mock", 100)
    assert set(metadata["durations"]) == {"queue", "checks"}
    assert metadata["code_hash"]
    assert metadata["seeds_digest"]


def test_state_counts_steps(server: Server) -> None:
    with server.connect() as wire:
        wire.reset(episode_id="counted", language="cpp", split="eval")
        for _ in range(2):
            wire.step("x = 1")
        state = wire.state()
    assert (state["episode_id"], state["step_count"], state["turn"]) == ("counted", 2, 2)
    assert (state["language"], state["split"]) == ("cpp", "eval")


def test_close_is_answered_by_a_close(server: Server) -> None:
    parked = server.health()["parked_sessions"]
    with server.connect() as wire:
        wire.reset()
        wire.send("close")
        assert wire.closed() == 1000
    server.wait_for(5.0, active_sessions=0, parked_sessions=parked)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}, -32603),
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "reset"}}, -32603),
        ({"jsonrpc": "2.0", "id": 5, "method": "nonsense"}, -32601),
        ({"hello": 1}, -32600),
    ],
)
def test_mcp_is_answered_as_unsupported(server: Server, request_: dict[str, Any], code: int) -> None:
    with server.connect() as wire:
        frame = wire.ask("mcp", request_)
    assert frame["type"] == "mcp"
    assert frame["data"]["jsonrpc"] == "2.0"
    assert frame["data"]["error"]["code"] == code


def step(**data: Any) -> str:
    return json.dumps({"type": "step", "data": data})


def reset(**data: Any) -> str:
    return json.dumps({"type": "reset", "data": data})


MALFORMED: dict[str, tuple[str | bytes, str, str]] = {
    "no JSON": ("hello", "INVALID_JSON", "not valid JSON"),
    "empty": ("", "INVALID_JSON", "not valid JSON"),
    "NaN": ('{"type": "reset", "data": {"seed": NaN}}', "INVALID_JSON", "NaN"),
    "Infinity": ('{"type": "reset", "data": {"seed": -Infinity}}', "INVALID_JSON", "Infinity"),
    "a number beyond range": ('{"type": "reset", "data": {"seed": 1e999}}', "INVALID_JSON", "out of range"),
    "a number of 5000 digits": (
        '{"type": "reset", "data": {"seed": ' + "9" * 5000 + "}}",
        "INVALID_JSON",
        "digits",
    ),
    "deep JSON": ("[" * 200_000, "INVALID_JSON", "deeply"),
    "deep JSON, closed": ("[" * 100_000 + "]" * 100_000, "INVALID_JSON", "deeply"),
    "array": ("[1, 2]", "VALIDATION_ERROR", "JSON object"),
    "scalar": ("3", "VALIDATION_ERROR", "JSON object"),
    "null": ("null", "VALIDATION_ERROR", "JSON object"),
    "binary": (b'{"type": "state"}', "VALIDATION_ERROR", "as text"),
    "no type": ("{}", "UNKNOWN_TYPE", "reset, step, state, close, mcp"),
    "unknown type": ('{"type": "ping"}', "UNKNOWN_TYPE", "'ping'"),
    "type of a wrong type": ('{"type": ["state"]}', "UNKNOWN_TYPE", "reset, step"),
    "long type": (json.dumps({"type": "x" * 100_000}), "UNKNOWN_TYPE", "reset, step"),
    "further keys": ('{"type": "state", "id": 1}', "VALIDATION_ERROR", "'id'"),
    "many further keys": (
        json.dumps({"type": "state", **{f"k{i}": "x" * 500 for i in range(500)}}),
        "VALIDATION_ERROR",
        "use: type",
    ),
    "data of a wrong type": ('{"type": "reset", "data": []}', "VALIDATION_ERROR", "`data`"),
    "step without data": ('{"type": "step"}', "VALIDATION_ERROR", "`data`"),
    "lone surrogate in code": ('{"type": "step", "data": {"code": "\\ud800"}}', "VALIDATION_ERROR", "surrogate"),
    "lone surrogate in a key": ('{"type": "reset", "data": {"\\uDFFF": 1}}', "VALIDATION_ERROR", "surrogate"),
    "no code": (step(), "VALIDATION_ERROR", "code"),
    "code of a wrong type": (step(code=5), "VALIDATION_ERROR", "code=5"),
    "unknown action field": (step(code="x", cod="y"), "VALIDATION_ERROR", "'cod'"),
    "metadata of a wrong type": (step(code="x", metadata=[]), "VALIDATION_ERROR", "metadata"),
    "request_id of a wrong type": (step(code="x", metadata={"request_id": 5}), "VALIDATION_ERROR", "request_id=5"),
    "code too large": (step(code="#" * 300_000), "TOO_LARGE", "KERNEL_ENV_MAX_CODE_BYTES"),
    "10 MB of code": (step(code="#" * 10_000_000), "TOO_LARGE", "characters"),
    "seed as text": (reset(seed="0"), "VALIDATION_ERROR", "whole number"),
    "seed as a fraction": (reset(seed=0.5), "VALIDATION_ERROR", "seed=0.5"),
    "seed as a boolean": (reset(seed=True), "VALIDATION_ERROR", "whole number"),
    "negative seed": (reset(seed=-1), "VALIDATION_ERROR", "seed=-1"),
    "unknown split": (reset(split="test"), "VALIDATION_ERROR", "train, eval"),
    "unknown language": (reset(language="rust"), "VALIDATION_ERROR", "triton, cuda, cpp"),
    "unknown task": (reset(task_id="level1/e01_RowSoftmix"), "VALIDATION_ERROR", "level1/e01_RowSoftmax"),
    "task of a wrong type": (reset(task_id=3), "VALIDATION_ERROR", "task_id=3"),
    "episode_id too long": (reset(episode_id="x" * 256), "VALIDATION_ERROR", "255"),
    "unknown reset field": (reset(sed=1), "VALIDATION_ERROR", "task_id, task_source, split, language"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_input_gets_one_error_and_the_session_lives_on(server: Server, name: str) -> None:
    sent, code, told = MALFORMED[name]
    with server.connect() as wire:
        wire.reset(task_id="level1/e01_RowSoftmax")
        frame = wire.raw(sent)
        assert frame["type"] == "error"
        assert frame["data"]["code"] == code
        assert told in frame["data"]["message"]
        assert len(json.dumps(frame)) < 2500
        assert str(ROOT) not in frame["data"]["message"]
        state = wire.state()
    assert (state["step_count"], state["turn"], state["task_id"]) == (0, 0, "level1/e01_RowSoftmax")


def test_odd_but_valid_code_is_judged(server: Server) -> None:
    with server.connect() as wire:
        for code in ("", "\0", "x = '\U0001f600'", "\r\n\t", "(" * 5000, "# -*- coding: utf-16 -*-\n" + CODE):
            wire.reset(task_id="level1/e01_RowSoftmax")
            assert wire.step(code)["observation"]["turn"] == 1


def test_replies_keep_the_order_of_requests_sent_ahead(server: Server) -> None:
    with server.connect() as wire:
        wire.send("reset", {"episode_id": "ahead"})
        for _ in range(3):
            wire.send("step", {"code": CODE})
            wire.send("state")
        wire.send("nonsense")
        frames = [wire.receive() for _ in range(8)]
    assert [frame["type"] for frame in frames] == ["observation", *["observation", "state"] * 3, "error"]
    assert [frame["data"]["turn"] for frame in frames if frame["type"] == "state"] == [1, 2, 3]


def test_a_frame_beyond_the_protocols_limit_closes_the_connection(server: Server) -> None:
    with server.connect() as wire:
        with suppress(ConnectionClosed):
            wire.socket.send("x" * (17 << 20))
        # A reset of the TCP connection, with bytes unread, may overtake the close frame.
        assert wire.closed() in (1009, None)
    server.wait_for(5.0, active_sessions=0)
