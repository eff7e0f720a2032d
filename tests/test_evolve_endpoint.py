"""The model's endpoint as it misbehaves: what is asked again, what counts as an answer, and what is saved."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kernel_env.evolve import ConfigError, LLMConfig
from kernel_env.evolve.retry import LONGEST_WAIT_S, asked, delay, hopeless, retryable

from .endpoint import Body, Endpoint, Say, number_of, serving
from .evolving import HEADER_SECRET, SECRET, answer, evolve, program

GOOD = answer(program(2.0))
ONE = {"budget": {"evaluations": 3}, "stop": {"target_speedup": 1.5}, "parallel": {"llm": 1}}


def once(first: Say) -> Any:
    """A policy: the first request meets `first`, the others are answered."""
    return lambda body, number: first if number == 0 else GOOD


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "first",
    [
        Say(status=429, headers={"Retry-After": "0.2"}),
        Say(status=500),
        Say(status=503, headers={"retry-after-ms": "50"}),
        Say(status=408),
        Say(GOOD, drop=3),
    ],
    ids=["429", "500", "503", "408", "dropped"],
)
def test_a_request_that_may_succeed_later_is_sent_again(tmp_path: Path, first: Say, stream: bool) -> None:
    with serving(once(first)) as endpoint:
        began = time.monotonic()
        result = evolve(endpoint, tmp_path, ONE, options={"stream": stream})
    assert result.success
    assert result.stop_kind == "target"
    assert len(endpoint.requests) == 2 == result.usage.calls
    assert "Retry-After" not in first.headers or time.monotonic() - began >= 0.2


@pytest.mark.parametrize(
    "first",
    [
        Say(raw="<html>busy</html>"),
        Say(raw='{"choices": []}'),
        Say(raw='{"choices": [{"index": 0}]}'),
        Say(raw='{"truncated": '),
        Say(raw="null"),
    ],
    ids=["html", "no choices", "no message", "cut JSON", "null"],
)
def test_a_malformed_body_is_asked_for_again(tmp_path: Path, first: Say) -> None:
    with serving(once(first)) as endpoint:
        assert evolve(endpoint, tmp_path, ONE).success
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    "broken", [Say(GOOD, raw="{oops"), Say(GOOD, finish_reason=None)], ids=["event", "no end"]
)
def test_a_stream_that_is_no_answer_is_asked_for_again(tmp_path: Path, broken: Say) -> None:
    with serving(once(broken)) as endpoint:
        assert evolve(endpoint, tmp_path, ONE, options={"stream": True}).success
    assert len(endpoint.requests) == 2


def test_one_retry_layer(tmp_path: Path) -> None:
    config = {**ONE, "budget": {"evaluations": 2}}
    with serving(lambda body, number: Say(status=500)) as endpoint:
        result = evolve(endpoint, tmp_path, config, options={"max_retries": 2})
    assert (result.success, result.stop_kind, result.status) == (False, "endpoint", 4)
    # Three candidates in a row, each with its first request and two more.
    assert len(endpoint.requests) == 9
    assert result.usage.calls == 9
    assert "scripted 500" in result.stop_reason


def test_a_failed_call_costs_its_candidate_only(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say | str:
        return Say(status=500) if number_of(body) == 1 else answer(program(1.0 + number_of(body)))

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {"stop": {"target_speedup": 4.0}}, options={"max_retries": 0})
    assert [node.stage for node in result.history] == ["passed", "endpoint", "passed", "passed"]
    assert result.best is not None
    assert result.best.speedup == 4.0


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_no_retry_can_mend_ends_the_run_at_once(tmp_path: Path, status: int) -> None:
    with serving(
        lambda body, number: Say(status=status, error={"message": f"key {SECRET} is unknown"})
    ) as endpoint:
        result = evolve(endpoint, tmp_path, {"parallel": {"llm": 1}})
    assert result.status == 4
    assert len(endpoint.requests) == 1
    assert SECRET not in result.stop_reason
    assert "[redacted]" in result.stop_reason
    assert not result.history


def test_a_dead_endpoint_leaves_the_best(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say | str:
        return GOOD if number_of(body) == 0 else Say(status=500)

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {}, options={"max_retries": 0})
    success, source = result
    assert success
    assert "class ModelNew" in source
    assert (result.status, result.stop_kind) == (4, "endpoint")
    assert (tmp_path / "run" / "best.py").read_text() == source


def test_nobody_listens(tmp_path: Path) -> None:
    with serving(lambda body, number: GOOD) as endpoint:
        pass
    result = evolve(endpoint, tmp_path, options={"max_retries": 0})
    assert result.status == 4
    assert "Connection" in result.stop_reason or "connect" in result.stop_reason


def test_a_refused_parameter_is_left_out_once_and_for_all(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say | str:
        if "temperature" in body:
            message = "Unsupported value: 'temperature' does not support 0.2 with this model."
            return Say(status=400, error={"message": message, "param": "temperature"})
        if "max_tokens" in body:
            return Say(status=400, error={"message": "Use 'max_completion_tokens' instead of 'max_tokens'."})
        return answer(program(1.0 + number))

    with serving(policy) as endpoint:
        options = {"temperature": 0.2, "max_tokens": 900, "top_p": 0.9}
        result = evolve(
            endpoint, tmp_path, {"stop": {"target_speedup": 4.0}, "parallel": {"llm": 1}}, options=options
        )
    assert result.success
    assert len(endpoint.requests) == 2 + len({number_of(body) for body in endpoint.requests})
    last = endpoint.requests[-1]
    assert (last["max_completion_tokens"], last["top_p"]) == (900, 0.9)
    assert "temperature" not in last
    assert any("temperature" in note for note in result.notes)


def test_a_400_that_names_nothing_of_ours_is_a_failed_candidate(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say | str:
        return Say(status=400, error={"message": "prompt too long"}) if number == 0 else GOOD

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, ONE)
    assert [node.stage for node in result.history] == ["endpoint", "passed"]
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("end", ["", "/"])
def test_the_path_is_joined_once(tmp_path: Path, end: str) -> None:
    with serving(lambda body, number: GOOD) as endpoint:
        endpoint.url += end
        assert evolve(endpoint, tmp_path, ONE).success
    assert {path for path, _ in endpoint.seen} == {"/v1/chat/completions"}


def test_options_go_where_they_belong(tmp_path: Path) -> None:
    with serving(lambda body, number: GOOD) as endpoint:
        evolve(endpoint, tmp_path, ONE, options={"temperature": 0.3, "extra_body": {"top_k": 20}, "timeout": 5.0})
    body, (path, headers) = endpoint.requests[0], endpoint.seen[0]
    assert path == "/v1/chat/completions"
    sent = {name.lower(): value for name, value in headers.items()}
    assert sent["authorization"] == f"Bearer {SECRET}"
    assert sent["x-gateway"] == HEADER_SECRET
    assert set(body) == {"model", "messages", "temperature", "top_k"}
    assert "tools" not in body


@pytest.mark.parametrize(
    ("say", "stage", "text"),
    [
        (Say(answer(program())[:120], finish_reason="length"), "answer", "cut off at the token limit"),
        (Say("I cannot do that."), "answer", "no program"),
        (Say(None), "answer", "no program"),
        (Say("```python\nprint(1)\n```"), "answer", "no program"),
        (Say(answer(program(2.0)) + "\nThis works beca", finish_reason="length"), "passed", ""),
    ],
    ids=["cut", "refusal", "null", "other code", "cut after the program"],
)
def test_answers_without_a_program(tmp_path: Path, say: Say, stage: str, text: str) -> None:
    config = {"budget": {"calls": 1}}
    with serving(lambda body, number: say) as endpoint:
        result = evolve(endpoint, tmp_path, config)
    assert [node.stage for node in result.history] == [stage]
    assert text in result.history[0].feedback
    assert len(endpoint.requests) == 1


def test_of_several_fences_the_last_that_defines_the_model_counts(tmp_path: Path) -> None:
    example = "```python\nx = ModelNew()\n```\n"
    said = f"{answer(program(1.5))}\nBetter:\n{answer(program(3.0), 'the second')}\nUse it so:\n{example}"
    with serving(lambda body, number: said) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 1}})
    assert result.best is not None
    assert result.best.speedup == 3.0


@pytest.mark.parametrize(
    "thought",
    ["<think>{}</think>", "[unused16]{}[unused17]", "{}</think>", "<think>{}</think>\n<think>again</think>"],
)
def test_thinking_is_no_answer(tmp_path: Path, thought: str) -> None:
    said = f"{answer(program(2.0))}{thought.format(answer(program(9.0)))}"
    # What stands before a closing mark without an opening one is thinking, too.
    if thought.startswith("{}"):
        said = f"{thought.format(answer(program(9.0)))}{answer(program(2.0))}"
    with serving(lambda body, number: said) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 1}})
    assert result.best is not None
    assert result.best.speedup == 2.0


def test_usage_that_is_not_told_is_estimated_and_said(tmp_path: Path) -> None:
    with serving(lambda body, number: Say(GOOD, usage=False)) as endpoint:
        result = evolve(endpoint, tmp_path, ONE)
    assert result.usage.tokens > 100
    assert any("usage" in note for note in result.notes)


@pytest.mark.parametrize("model_class", ["OpenAIChatClient", "PanguClient"])
def test_the_model_classes_of_the_original(model_class: str) -> None:
    config = LLMConfig(model_class=model_class, model_name="m", api_key="none", base_url="http://127.0.0.1:1/v1")
    assert config.secrets() == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"model_class": "Other"}, "OpenAIChatClient, PanguClient"),
        ({"model_name": ""}, "model_name"),
        ({"temprature": 0.2}, "did you mean temperature"),
        ({"zzz": 1}, "extra_body"),
        ({"api_key": ""}, "OPENAI_API_KEY"),
    ],
)
def test_a_wrong_config_is_refused_by_name(given: Body, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=text):
        LLMConfig(**{"model_name": "m", "api_key": "k", **given})


def test_a_config_never_shows_its_secrets() -> None:
    config = LLMConfig(
        model_name="m",
        api_key=SECRET,
        base_url="http://user:pass99@host/v1",
        default_headers={"A": "Bearer tok999"},
    )
    shown = repr(config) + json.dumps(config.shown())
    assert not any(secret in shown for secret in (SECRET, "pass99", "tok999"))
    assert {SECRET, "user", "pass99", "Bearer tok999"} == set(config.secrets())


def test_waiting_between_attempts() -> None:
    assert [delay(attempt, None, 1.0) for attempt in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert delay(0, None, 0.0) == 0.25
    assert delay(0, 7.0, 0.5) == 7.0
    assert delay(0, LONGEST_WAIT_S + 1, 0.5) is None
    assert asked({"retry-after": "3"}) == 3.0
    assert asked({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert asked({"retry-after": "nan"}) is None
    assert asked({}) is None
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    assert 25 < (asked({"retry-after": date}) or 0) <= 30
    assert [s for s in (200, 400, 401, 404, 408, 422, 429, 500, 529) if retryable(s)] == [408, 429, 500, 529]
    assert [s for s in (400, 401, 403, 404, 422, 429, 500) if hopeless(s)] == [401, 403, 404]


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> Say:
        return Say(answer(program(1.0 + number_of(body))), delay_s=0.3)

    with serving(policy) as endpoint:
        began = time.monotonic()
        result = evolve(endpoint, tmp_path, {"stop": {"target_speedup": 4.0}, "parallel": {"llm": 4}})
    assert result.success
    assert time.monotonic() - began < 1.0
    assert isinstance(endpoint, Endpoint)
