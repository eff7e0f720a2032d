"""`/metrics` of servers in use, and the dashboard that draws it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Launch
from .serving import CODE, Server, scripted

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from kernel_env.server.config import Settings
from kernel_env.server.conformance import RIGHT, request
from kernel_env.server.metrics import WatchedPool, exposition
from kernel_env.server.mock import MockPool
from kernel_env.server.outcome import Evaluation, EvaluationRequest, Passed

DASHBOARD = json.loads((Path(__file__).parents[1] / "docs" / "grafana.json").read_text())

Samples = dict[tuple[str, ...], float]


def samples(text: str) -> Samples:
    """By name and label values, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(server: Server, **headers: str) -> Samples:
    reply = server.get("/metrics", headers=headers)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    return samples(reply.text)


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True)


def test_what_was_evaluated_is_counted(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        wire.step(CODE)
        wire.step(scripted(fail="kaputt"))
        told = scrape(server)
        assert told["kernel_env_sessions", "active"] == 1
    assert told["kernel_env_evaluations_total", "triton", "passed", "passed"] == 1
    assert sum(value for key, value in told.items() if key[0] == "kernel_env_evaluations_total") == 2
    assert told["kernel_env_ready",] == 1
    assert told["kernel_env_queued",] == 0
    assert told["kernel_env_sessions_limit",] == 64
    assert [value for key, value in told.items() if key[0] == "kernel_env_device"] == [1]


def test_a_client_that_leaves_is_counted(server: Server) -> None:
    before = scrape(server)["kernel_env_evaluations_abandoned_total",]
    with server.connect() as wire:
        wire.reset()
        wire.send("step", {"code": scripted(sleep=20)})
        server.wait_for(5.0, running=1)
        wire.cut()
    server.wait_for(5.0, running=0)
    assert scrape(server)["kernel_env_evaluations_abandoned_total",] == before + 1


def test_numbers_are_behind_the_token(launch: Launch) -> None:
    locked = launch(KERNEL_ENV_TOKEN="s3cret")
    assert locked.get("/metrics").status_code == 401
    assert scrape(locked, Authorization="Bearer s3cret")["kernel_env_ready",] == 1


class Drifting(MockPool):
    """Each time the reference takes a tenth longer than the first time, on a device of its own."""

    asked = 0

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        evaluation = await super().evaluate(request)
        outcome = evaluation.outcome
        assert isinstance(outcome, Passed)
        assert outcome.timing is not None
        slower = outcome.timing.ref_runtime_ms * (1.0 + 0.1 * (self.asked > 0))
        self.asked += 1
        timing = outcome.timing.model_copy(update={"ref_runtime_ms": slower})
        passed = outcome.model_copy(update={"timing": timing})
        durations = {"queue": 3.0, "build": 1.0, "correctness": 0.5, "timing": 2.0}
        return evaluation.model_copy(update={"outcome": passed, "durations": durations})


async def test_a_drifting_baseline_and_a_busy_device_show() -> None:
    pool = WatchedPool(Drifting(Settings(evaluator="mock")))
    for _ in range(3):
        await pool.evaluate(request(RIGHT))
    told = samples(exposition(pool.registry).decode())
    assert told["kernel_env_baseline_ratio_count",] == 2
    assert told["kernel_env_baseline_ratio_sum",] == pytest.approx(2.2)
    assert told["kernel_env_device_busy_seconds_total", "0"] == 7.5
    assert told["kernel_env_stage_seconds_sum", "queue"] == 9.0


def test_the_dashboard_draws_what_there_is(server: Server) -> None:
    names = {key[0] for key in scrape(server)} | {"kernel_env_sandbox_layer"}
    drawn = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(drawn) > 12
    asked = {name for expression in drawn for name in re.findall(r"kernel_env_\w+", expression)}
    assert asked <= names
    assert {name.partition("_bucket")[0] for name in asked} >= {"kernel_env_stage_seconds", "kernel_env_device"}
