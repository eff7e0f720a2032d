"""The search: what becomes best, what is nobody's parent, what is spent, and what four strategies make of it."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kernel_env.evolve import (
    ConfigError,
    EvolveConfig,
    GPUEvaluator,
    KernelEvolve,
    LLMConfig,
    Metrics,
    Reply,
    TaskFormError,
)
from kernel_env.evolve.budget import UNITS, Ledger, Spend
from kernel_env.evolve.config import Budget, Search
from kernel_env.evolve.program import key_of, read_answer
from kernel_env.evolve.strategies import strategy_of
from kernel_env.evolve.tree import Tree

from .endpoint import Body, Say, number_of, serving
from .evolving import (
    TASK,
    Blocking,
    Landscape,
    answer,
    evolve,
    kernel_evolve,
    program,
    speed_in,
    tree_of,
)


def climbing(body: Body, number: int) -> str:
    """A model that makes what it is shown a little faster, and every third version broken."""
    candidate, asked = number_of(body), body["messages"][-1]["content"]
    shown = speed_in(asked) if "A program so far" in asked else 0.0
    fault = "correctness" if candidate % 3 == 2 else ""
    speed = round((shown or 0.5 + candidate / 100) * 1.25, 4)
    return answer(program(speed, fault), f"idea {candidate}")


def said(*programs: str) -> Any:
    """A policy: candidate k gets program k, the last one again and again."""
    return lambda body, number: answer(programs[min(number_of(body), len(programs) - 1)])


# What the original does wrong, row by row.


def test_a_program_that_nobody_verified_is_no_success(tmp_path: Path) -> None:
    with serving(said(program(fault="correctness"))) as endpoint:
        result = evolve(endpoint, tmp_path)
    success, reason = result
    assert not success
    assert "no program was verified" in reason
    assert "at correctness" in reason
    # The same program again and again costs no evaluation, and does not go on for ever.
    assert result.stop_kind == "stale"
    assert len(result.history) == 17


def test_the_best_stays_the_best(tmp_path: Path) -> None:
    with serving(said(program(3.0), program(1.1), program(fault="compile"))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"evaluations": 6}})
    success, source = result
    assert success
    assert "SPEED = 3.0" in source
    assert result.metrics is not None
    assert result.metrics.speedup == 3.0
    assert result.status == 0


def test_a_bad_ending_loses_nothing(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        return answer(program(3.0)) if number_of(body) == 0 else "I failed to make it faster."

    with serving(policy) as endpoint:
        success, source = evolve(endpoint, tmp_path, {"budget": {"calls": 4}})
    assert success
    assert "SPEED = 3.0" in source


def test_a_model_that_never_stops_is_stopped(tmp_path: Path) -> None:
    with serving(climbing) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 7, "evaluations": None}})
    assert result.stop_reason == "the budget of calls is spent"
    assert len(endpoint.requests) == 7


def test_evaluations_run_side_by_side(tmp_path: Path) -> None:
    landscape = Landscape()
    landscape.delay_s = 0.4
    config = {"budget": {"evaluations": 8}, "parallel": {"evaluations": 3}}
    with serving(climbing) as endpoint:
        evolve(endpoint, tmp_path, config, landscape)
    assert landscape.most_at_once == 3


def test_an_evaluator_that_raises_is_not_held_against_the_program(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kernel_env.evolve.bench.BETWEEN_S", 0.0)
    with serving(said(program(fault="raise"), program(2.0))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 3}})
    assert [node.stage for node in result.history] == ["infrastructure", "passed", "passed"]
    assert result.success
    assert "[redacted]" not in result.history[1].feedback


def test_an_evaluator_that_always_raises_ends_the_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kernel_env.evolve.bench.BETWEEN_S", 0.0)

    def policy(body: Body, number: int) -> str:
        return answer(program(1.0 + number_of(body), "raise"))

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path)
    assert (result.stop_kind, result.status) == ("evaluator", 4)
    assert "the evaluator broke" in result.stop_reason


async def test_inside_a_running_loop(tmp_path: Path) -> None:
    config = {"budget": {"calls": 2}}
    with serving(climbing) as endpoint:
        inside = evolve(endpoint, tmp_path / "a", config)
        awaited = await kernel_evolve(endpoint, tmp_path / "b", config).aevolve()
    assert tree_of(inside) == tree_of(awaited)


def test_in_a_thread(tmp_path: Path) -> None:
    found = []
    config = {"budget": {"calls": 2}}
    with serving(climbing) as endpoint:
        thread = threading.Thread(target=lambda: found.append(evolve(endpoint, tmp_path, config)))
        thread.start()
        thread.join()
    assert found[0].success


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("", "lacks class Model, function get_inputs, function get_init_inputs"),
        (TASK.replace("def get_inputs", "def inputs"), "lacks function get_inputs"),
        ("class Model(:", "does not parse"),
        ("/tmp/task.py", "looks like a path"),
    ],
)
def test_initial_code_without_the_form_is_refused_first(code: str, text: str) -> None:
    with pytest.raises(TaskFormError, match=text):
        KernelEvolve(code, LLMConfig(model_name="m", api_key="k"), Landscape())


def test_the_documented_sample_of_the_original_runs(tmp_path: Path) -> None:
    indented = "\n".join(f"    {line}" if line else "" for line in TASK.splitlines())
    with serving(said(program(2.0))) as endpoint:
        config = LLMConfig(
            model_class="OpenAIChatClient",
            model_name="scripted",
            api_key="key-of-the-sample",
            base_url=endpoint.url,
            default_headers={"X-Id": "value-of-a-header"},
        )
        evolution = KernelEvolve(
            initial_code=indented,
            llm_config=config,
            evaluator=Landscape(),
            config=EvolveConfig.parse({"budget": {"calls": 1}}),
            run_dir=tmp_path / "run",
        )
        success_flag, result = evolution.evolve()
    assert success_flag
    assert "class ModelNew" in result


# Verdicts.


def test_nothing_that_was_not_confirmed_is_best(tmp_path: Path) -> None:
    with serving(said(program(5.0, "once"), program(2.0))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 2}})
    assert result.best is not None
    assert result.best.node == 1
    flaky = result.history[0]
    assert (flaky.verified, flaky.stage) == (False, "correctness")


def test_a_lucky_first_measurement_is_not_reported(tmp_path: Path) -> None:
    lucky = Landscape(noise=lambda speed, times: 4.0 if speed == 2.0 and times == 0 else 1.0)
    with serving(said(program(2.5), program(2.0))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 2}}, lucky)
    assert result.best is not None
    assert (result.best.node, result.best.speedup) == (0, 2.5)
    assert result.history[1].score == 2.0


def test_a_challenger_within_the_spread_does_not_win(tmp_path: Path) -> None:
    with serving(said(program(2.0), program(2.01), program(2.1))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 3}})
    assert [node.became_best for node in result.history] == [True, False, True]


@pytest.mark.parametrize("seed", range(2))
def test_a_noisy_evaluator_does_not_choose_by_luck(tmp_path: Path, seed: int) -> None:
    """A tenth of the measurements is four times too high: the best is measured again, and what stays is near."""

    def noise(speed: float, times: int) -> float:
        rng = random.Random(f"{seed} {speed} {times}")
        return 4.0 if rng.random() < 0.1 else rng.gauss(1.0, 0.02)

    config = {"budget": {"evaluations": 100}, "search": {"strategy": "best_of_n", "remeasure": 4}}

    def policy(body: Body, number: int) -> str:
        return answer(program(round(1.0 + 0.01 * (37 * number_of(body) % 50), 3)))

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, config, Landscape(noise))
    assert result.best is not None
    assert result.best.confirmations > 1
    assert result.best.speedup == pytest.approx(speed_in(result.best.code), rel=0.15)


def test_what_cannot_be_true_is_quarantined_and_nobodys_parent(tmp_path: Path) -> None:
    with serving(said(program(9.0, "impossible"), program(1.5))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"evaluations": 20, "calls": 16}})
    first = result.history[0]
    assert first.quarantine == "faster than memory allows"
    assert not first.verified
    assert all(node.parent != 0 for node in result.history)
    assert result.best is not None
    assert result.best.node == 1
    assert (tmp_path / "run" / "candidates" / "0000.py").is_file()


@pytest.mark.parametrize("speedup", [float("inf"), 3.0])
def test_a_time_of_zero_is_quarantined(tmp_path: Path, speedup: float) -> None:
    evaluator = Blocking(lambda code: Metrics(speedup, 1.0, 0.0))
    with serving(said(program())) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 1}}, evaluator)
    assert not result.success
    assert result.failures == {"quarantined": 1}


def test_a_program_is_never_evaluated_twice(tmp_path: Path) -> None:
    landscape = Landscape()
    spaced = program(2.0).replace("SPEED = 2.0", "SPEED    =   2.0  # the same")
    with serving(said(program(2.0), spaced, program(2.0, note="another docstring"))) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 9}, "search": {"remeasure": 0}}, landscape)
    assert [node.duplicate_of for node in result.history] == [None, *[0] * 8]
    assert sum(landscape.seen.values()) == 2 == result.usage.evaluations
    assert result.history[5].score == 2.0


def test_correct_but_slower_and_untimed(tmp_path: Path) -> None:
    with serving(said(program(0.8))) as endpoint:
        slower = evolve(endpoint, tmp_path / "a", {"budget": {"calls": 1}})
        evaluator = Blocking(lambda code: Metrics(float("nan"), 1.0, 1.0))
        untimed = evolve(endpoint, tmp_path / "b", {"budget": {"calls": 1}}, evaluator)
    assert (slower.success, slower.status) == (True, 1)
    assert (untimed.success, untimed.status) == (True, 1)
    assert untimed.best is not None
    assert untimed.best.speedup is None
    assert untimed.best.metrics.to_dict()["speedup"] is None


def test_metrics_are_those_of_the_original() -> None:
    metrics = Metrics(1.5, 380.0, 190.0)
    assert (metrics.error, metrics.traceback, metrics.correct) == (None, None, True)
    assert metrics.to_dict()["optimized_time"] == 190.0
    assert not Metrics(0.0, 1000.0, 1000.0, "wrong").correct
    assert not Metrics(0.0, 1000.0, 1000.0).correct
    assert Metrics.from_dict(metrics.to_dict()) == metrics


def test_metrics_may_hold_anything(tmp_path: Path) -> None:
    nan = float("nan")
    odd = Metrics(2.0, 2.0, 1.0, reward=nan, speedup_low=nan, details={"device": object(), "shares": (nan, 1.0)})
    with serving(said(program())) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 1}}, Blocking(lambda code: odd))
    assert result.success
    assert result.best is not None
    assert result.best.metrics.to_dict()["details"]["shares"] == [None, 1.0]


def test_plain_evaluators_run_beside_the_loop(tmp_path: Path) -> None:
    evaluator = Blocking(lambda code: Metrics(2.0, 2.0, 1.0))
    with serving(said(program())) as endpoint:
        assert evolve(endpoint, tmp_path, {"budget": {"calls": 1}}, evaluator).success
    assert evaluator.threads == {"evolve"}


def test_an_evaluation_that_never_ends_costs_its_time_out(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kernel_env.evolve.bench.ATTEMPTS", 1)
    forever = threading.Event()
    evaluator = Blocking(lambda code: forever.wait())
    config = {"budget": {"calls": 1}, "parallel": {"evaluation_timeout_s": 0.2}}
    began = time.monotonic()
    with serving(said(program())) as endpoint:
        result = evolve(endpoint, tmp_path, config, evaluator)
    assert time.monotonic() - began < 5.0
    forever.set()
    assert [node.stage for node in result.history] == ["infrastructure"]
    assert "no verdict within 0.2 s" in result.history[0].feedback


# Budgets and stops.


@pytest.mark.parametrize(
    ("unit", "limit"),
    [("evaluations", 9), ("calls", 5), ("tokens", 4_000), ("usd", 0.02), ("gpu_seconds", 8.0)],
)
def test_a_budget_is_not_passed(tmp_path: Path, unit: str, limit: float) -> None:
    config = {"budget": {"evaluations": None, unit: limit}, "prices": {"scripted": {"input": 1.0, "output": 10.0}}}
    with serving(climbing) as endpoint:
        result = evolve(endpoint, tmp_path, config, options={"max_tokens": 500})
    assert result.stop_reason == f"the budget of {unit} is spent"
    spent = getattr(result.usage, unit)
    assert 0.4 * limit < spent <= limit
    assert len(endpoint.requests) == result.usage.calls == len(result.history)


def test_the_wall_time_is_not_passed(tmp_path: Path) -> None:
    landscape = Landscape()
    landscape.delay_s = 30.0
    began = time.monotonic()
    with serving(climbing) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"wall_seconds": 0.5}}, landscape)
    assert time.monotonic() - began < 5.0
    assert (result.stop_kind, result.history) == ("budget", ())


def test_dollars_need_a_price() -> None:
    config = EvolveConfig.parse({"budget": {"usd": 1.0}})
    with pytest.raises(ConfigError, match="needs the price of 'm'"):
        KernelEvolve(TASK, LLMConfig(model_name="m", api_key="k"), Landscape(), config=config)


def test_a_token_budget_caps_answers(tmp_path: Path) -> None:
    with serving(climbing) as endpoint:
        evolve(endpoint, tmp_path, {"budget": {"tokens": 40_000}})
    assert all(body["max_completion_tokens"] == 16_384 for body in endpoint.requests)


def test_retries_are_paid_from_the_budget_of_calls(tmp_path: Path) -> None:
    with serving(lambda body, number: Say(status=500)) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 2}}, options={"max_retries": 5})
    assert len(endpoint.requests) == 2
    assert result.status == 2


def test_the_ledger_reserves_before_it_spends() -> None:
    ledger = Ledger(Budget(evaluations=4, calls=2))
    assert ledger.reserve(0, Spend(evaluations=2, calls=1))
    assert ledger.reserve(1, Spend(evaluations=2, calls=1))
    assert not ledger.reserve(2, Spend(calls=1))
    ledger.charge(0, Spend(evaluations=1, calls=1))
    assert ledger.lacking(Spend(evaluations=1)) is None
    assert ledger.lacking(Spend(calls=1)) == "calls"
    assert ledger.spent.to_dict() == dict(zip(UNITS, (1, 1, 0, 0.0, 0.0), strict=True))


@pytest.mark.parametrize(
    ("stop", "kind"),
    [({"target_speedup": 1.5}, "target"), ({"roofline": 0.2}, "roofline"), ({"patience": 3}, "patience")],
)
def test_stop_rules(tmp_path: Path, stop: dict[str, Any], kind: str) -> None:
    policy = said(program(1.1)) if kind == "patience" else climbing
    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {"stop": stop})
    assert result.stop_kind == kind
    if kind == "patience":
        assert len(result.history) == 4
    else:
        assert result.history[-1].became_best


@pytest.mark.parametrize("looped", [False, True], ids=["plain", "in a loop"])
def test_ctrl_c_saves_the_run(tmp_path: Path, looped: bool) -> None:
    landscape = Landscape()

    def policy(body: Body, number: int) -> Say:
        if number_of(body) == 1:
            deadline = time.monotonic() + 10.0
            while not (tmp_path / "run" / "best.py").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return Say(answer(program(2.0)), delay_s=0.0 if number_of(body) == 0 else 20.0)

    async def inside() -> Any:
        return evolve(endpoint, tmp_path, {"parallel": {"llm": 1}}, landscape)

    began = time.monotonic()
    with serving(policy) as endpoint:
        if looped:
            # The loop was interrupted, too, and says so once it gets its turn.
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(inside())
        else:
            result = evolve(endpoint, tmp_path, {"parallel": {"llm": 1}}, landscape)
            assert (result.stop_kind, result.status) == ("interrupted", 130)
    assert time.monotonic() - began < 10.0
    assert '"kind": "interrupted"' in (tmp_path / "run" / "run.jsonl").read_text()
    assert "SPEED = 2.0" in (tmp_path / "run" / "best.py").read_text()
    assert (tmp_path / "run" / "report.html").is_file()


async def test_a_cancelled_run_is_saved_and_cancelled(tmp_path: Path) -> None:
    with serving(lambda body, number: Say("", delay_s=5.0)) as endpoint:
        task = asyncio.create_task(kernel_evolve(endpoint, tmp_path).aevolve())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert '"interrupted"' in (tmp_path / "run" / "run.jsonl").read_text()


# Strategies.


@pytest.mark.parametrize("strategy", ["refine", "best_of_n", "beam", "islands"])
def test_strategies_share_one_budget_and_never_look_ahead(tmp_path: Path, strategy: str) -> None:
    with serving(climbing) as endpoint:
        result = evolve(endpoint, tmp_path, {"search": {"strategy": strategy}, "budget": {"evaluations": 30}})
    assert result.usage.evaluations <= 30
    rules = strategy_of(Search(strategy=strategy))
    for node in result.history:
        assert node.parent is None or node.parent < rules.horizon(node.id) <= node.id
    assert result.best is not None
    if strategy == "best_of_n":
        assert {node.proposal.role for node in result.history} == {"draft"}
    else:
        assert result.best.speedup is not None
        assert result.best.speedup > 1.0


@pytest.mark.parametrize("strategy", ["refine", "best_of_n", "beam", "islands"])
def test_horizons_never_fall(strategy: str) -> None:
    rules = strategy_of(Search(strategy=strategy, drafts=5, width=3))
    horizons = [rules.horizon(number) for number in range(200)]
    assert horizons == sorted(horizons)
    assert all(horizon <= number for number, horizon in enumerate(horizons))


def test_refine_repairs_until_something_is_verified(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        candidate = number_of(body)
        fault = "" if candidate >= 6 else ("compile", "correctness")[candidate % 2]
        return answer(program(1.0 + candidate, fault))

    with serving(policy) as endpoint:
        result = evolve(endpoint, tmp_path, {"budget": {"calls": 12}})
    roles = [node.proposal.role for node in result.history]
    assert roles[:4] == ["draft"] * 4
    assert roles[4:8] == ["repair"] * 4
    # What got furthest is repaired first.
    assert {node.parent for node in result.history[4:6]} == {1, 3}
    (fourth,) = (body for body in endpoint.requests if number_of(body) == 4)
    assert "Broken at correctness" in fourth["messages"][1]["content"]
    assert "refine" in roles[8:]


def test_what_the_model_is_told(tmp_path: Path) -> None:
    def policy(body: Body, number: int) -> str:
        return answer(program(3.0 - 0.01 * number_of(body)), f"idea {number_of(body)}")

    with serving(policy) as endpoint:
        evolve(endpoint, tmp_path, {"budget": {"calls": 12}})
    prompts = {number_of(body): body["messages"][-1]["content"] for body in endpoint.requests}
    assert "torch.diag(A) @ B + D" in prompts[0]
    refined = [text for text in prompts.values() if "Write a faster version" in text]
    assert refined
    assert all("Speedup" in text and "A direction to think in" in text for text in refined)
    assert any("- idea " in text for text in refined)


def test_islands_keep_apart_and_migrate() -> None:
    rules = strategy_of(Search(strategy="islands", drafts=4, width=2, migrate_every=2))
    assert [rules.propose(number, Tree()).island for number in range(4)] == [0, 1, 0, 1]


async def test_a_chat_of_ones_own(tmp_path: Path) -> None:
    class Own:
        async def complete(self, node: int, messages: Any, may_retry: Any) -> Reply:
            return Reply(answer(program(1.0 + node)), "own", "stop", 10, 10)

    config = EvolveConfig.parse({"budget": {"calls": 3}})
    run = KernelEvolve(TASK, None, Landscape(), config=config, run_dir=tmp_path / "r", chat=Own())
    result = await run.aevolve()
    assert result.best is not None
    assert result.best.speedup == 3.0


def test_programs_are_compared_by_their_trees() -> None:
    one = "import torch\n\n\nclass ModelNew:\n    'text'\n    x = 1\n"
    same = "import torch\nclass ModelNew:\n    x = (1)  # one\n"
    assert key_of(one) == key_of(same)
    assert key_of(one) != key_of(one.replace("1", "2"))
    assert key_of("class ModelNew(:") != key_of("class ModelNew[:")
    assert read_answer("**Idea:** fuse it\n```python\nclass ModelNew: ...\n```", "stop").idea == "fuse it"


def test_a_long_run_keeps_every_candidate(tmp_path: Path) -> None:
    config = {"budget": {"evaluations": None, "calls": 100}, "search": {"strategy": "best_of_n"}}
    with serving(said(*(program(1.0 + 0.001 * k) for k in range(100)))) as endpoint:
        result = evolve(endpoint, tmp_path, config)
    assert len(result.history) == 100
    assert len(list((tmp_path / "run" / "candidates").iterdir())) == 100


def test_a_wrong_language_is_refused() -> None:
    with pytest.raises(ConfigError, match="triton, cuda, cpp"):
        GPUEvaluator(language="rust")  # type: ignore[arg-type]
