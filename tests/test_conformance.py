"""The conformance suite holds for the mock and the local pool, and finds pools that break their contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.conformance import CHECKS, RIGHT, Subject, conform, request, undergo
from kernel_env.server.mock import MockPool
from kernel_env.server.outcome import Device, Evaluation, EvaluationRequest, Infrastructure, WrongOutput

from .pools import started
from .processes import end_the_busy_worker, find

MOCK = Settings(evaluator="mock")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[Subject]:
    async with started(Settings(evaluator="cpu", trials=2)) as pool:
        device = await pool.ready(1.0)
        assert device is not None, pool.health()
        yield Subject(pool, device, end_the_busy_worker)
    assert not find("kernel_env.server")


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("check", CHECKS)
async def test_the_local_pool_conforms(local: Subject, check: str) -> None:
    result = await undergo(local, check)
    assert result.state == "held", result


async def test_the_mock_pool_conforms() -> None:
    results = [result async for result in conform(MockPool(MOCK))]
    assert [result.check for result in results] == list(CHECKS)
    assert not [result for result in results if result.state == "broken"]
    assert {"rejected", "one_answer_each", "asked_again", "closed"} <= {
        result.check for result in results if result.state == "held"
    }
    assert all(result.why for result in results if result.state == "not run")


async def test_a_pool_that_does_not_come_up_is_told() -> None:
    pool = MockPool(MOCK)
    await pool.close()
    assert [(result.check, result.state) async for result in conform(pool)] == [("ready", "broken")]


class Pool(MockPool):
    """A pool with faults to be had by name."""

    def __init__(self, fault: str) -> None:
        super().__init__(MOCK)
        self._fault = fault
        self._asked = 0

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        self._asked += 1
        if self._fault == "waits for nobody":
            await asyncio.sleep(30.0)
        answer = await super().evaluate(request)
        changes: dict[str, dict[str, Any]] = {
            "all is wrong": {"outcome": WrongOutput(message="")},
            "our fault": {"outcome": Infrastructure(message="")},
            "another's answer": {"code_hash": "0"},
            "again and again": {"durations": {"checks": float(self._asked)}},
        }
        return answer.model_copy(update=changes.get(self._fault, {}))

    async def stage(self, request_id: str) -> str:
        told = {"odd stage": "elsewhere", "never over": "checks"}
        return told.get(self._fault, await super().stage(request_id))

    def health(self) -> dict[str, Any]:
        told = super().health()
        changes = {
            "no devices": {"devices": []},
            "odd health": {"queued": "none"},
            "closed and ready": {"state": "ready"},
            "not JSON": {"devices": ({"state": "ready", "name": "a"},)},
        }
        return told | changes.get(self._fault, {})


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("no devices", "health"),
        ("odd health", "health"),
        ("not JSON", "health"),
        ("all is wrong", "rejected"),
        ("another's answer", "one_answer_each"),
        ("all is wrong", "one_answer_each"),
        ("odd stage", "stages"),
        ("never over", "stages"),
        ("again and again", "asked_again"),
        ("our fault", "asked_again_by_one_who_left"),
        ("all is wrong", "no_budget"),
        ("closed and ready", "closed"),
    ],
)
async def test_a_fault_is_found(fault: str, check: str) -> None:
    pool = Pool(fault)
    result = await undergo(Subject(pool, Device(kind="mock", name="mock")), check)
    assert result.state == "broken", result
    assert result.why


@pytest.mark.parametrize("check", ["outcomes", "spent_by_the_submission"])
async def test_an_evaluator_that_runs_nothing_is_found(check: str) -> None:
    subject = Subject(MockPool(MOCK), Device(kind="cpu", name="not really"))
    assert (await undergo(subject, check)).state == "broken"


async def test_a_check_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_env.server.conformance.CHECK_S", 0.2)
    result = await undergo(Subject(Pool("waits for nobody"), Device(kind="mock", name="mock")), "rejected")
    assert result.state == "broken"
    assert "0.2 s" in result.why


async def test_same_id_other_content_is_another_request() -> None:
    pool = MockPool(MOCK)
    await pool.start()
    first = (await pool.evaluate(_named("a", RIGHT))).code_hash
    assert (await pool.evaluate(_named("a", RIGHT + "\n"))).code_hash != first


def _named(name: str, code: str) -> EvaluationRequest:
    return request(code).model_copy(update={"id": name})
