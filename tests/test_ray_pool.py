"""The Ray pool on a real cluster of this machine: it conforms; nodes are killed, join and leave under load.

Every node evaluates on the CPU. What each evaluated is read from the logs of its actor. Skipped without Ray.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.conformance import CHECKS, RIGHT, Subject, request, submission, undergo

from .processes import command, descendants, end_the_busy_worker

# Before Ray is imported: its processes listen on loopback alone, in the words of the systems that had to.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without room, and two nodes with a CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


def pool_on(cluster: Any, **settings: Any) -> Any:
    from kernel_env.server.ray_pool import RayPool

    return RayPool(Settings(**{"pool": "ray", "evaluator": "cpu", "ray_address": cluster.address} | settings))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(cluster: Any) -> AsyncIterator[Any]:
    pool = pool_on(cluster, trials=2)
    await pool.start()
    await until_ready(pool, 2)
    yield pool
    await pool.close()


async def until_ready(pool: Any, count: int, timeout_s: float = 180.0) -> None:
    began = time.monotonic()
    while [device["state"] for device in pool.health()["devices"]] != ["ready"] * count:
        assert time.monotonic() - began < timeout_s, pool.health()
        await asyncio.sleep(0.2)


def logged(cluster: Any, pattern: str) -> list[str]:
    """What matches in the logs of all actors, those of nodes that are gone included."""
    logs = Path(cluster.head_node.get_logs_dir_path()).glob("worker-*.err")
    return [found for log in sorted(logs) for found in re.findall(pattern, log.read_text(errors="replace"))]


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "closed"])
async def test_it_conforms(pool: Any, check: str) -> None:
    device = await pool.ready(60.0)
    result = await undergo(Subject(pool, device, end_the_busy_worker), check)
    assert result.state == "held", result


async def test_stages_are_asked_of_the_actor(pool: Any) -> None:
    asked = request(submission("time.sleep(0.5)"))
    step = asyncio.create_task(pool.evaluate(asked))
    seen = set()
    while not step.done():
        seen.add(await pool.stage(asked.id))
        await asyncio.sleep(0.05)
    assert "correctness" in seen


async def test_a_node_killed_under_load_costs_nothing(cluster: Any, pool: Any) -> None:
    await until_ready(pool, 2)
    slow = [request(submission(f"time.sleep(0.5)  # {number}")) for number in range(8)]
    began = len(logged(cluster, "begins"))
    steps = [asyncio.create_task(pool.evaluate(step)) for step in slow]
    while len(logged(cluster, "begins")) < began + len(steps) or len(logged(cluster, r"ends: passed")) == 0:
        await asyncio.sleep(0.1)
    power_off(min(cluster.worker_nodes, key=lambda node: node.node_id))
    answers = await asyncio.gather(*steps)
    assert [answer.outcome.kind for answer in answers] == ["passed"] * len(slow)
    ended = Counter(logged(cluster, r"evaluation (\w+)(?:-again)? ends: passed"))
    assert {step.id: ended[step.id] for step in slow} == {step.id: 1 for step in slow}
    tried_again = {name for name in logged(cluster, r"evaluation (\w+)-again begins") if name in ended}
    assert 0 < len(tried_again) < len(slow)
    await until_ready(pool, 1)


async def test_a_node_that_joins_gets_work_and_one_that_leaves_is_forgotten(cluster: Any, pool: Any) -> None:
    joined = cluster.add_node(num_cpus=1)
    await until_ready(pool, 2)
    steps = [asyncio.create_task(pool.evaluate(request(submission(f"time.sleep(0.2)  # {n}")))) for n in range(4)]
    await asyncio.sleep(0.1)
    assert [device["submissions"] for device in pool.health()["devices"]] == [2, 2]
    assert {(await step).outcome.kind for step in steps} == {"passed"}
    cluster.remove_node(joined)
    await until_ready(pool, 1)
    assert (await pool.evaluate(request(RIGHT))).outcome.kind == "passed"


async def test_closing_ends_everything(cluster: Any, pool: Any) -> None:
    """The last one with this pool."""
    result = await undergo(Subject(pool, await pool.ready(60.0)), "closed")
    assert result.state == "held", result
    began = time.monotonic()
    while workers := [pid for pid in descendants(os.getpid()) if "kernel_env.server" in command(pid)]:
        assert time.monotonic() - began < 15.0, workers
        await asyncio.sleep(0.2)


async def test_a_gpu_that_is_none_is_given_up(cluster: Any) -> None:
    """Ray believes what it is told of GPUs; the driver is asked, and nothing is evaluated elsewhere instead."""
    pool = pool_on(cluster, evaluator="auto")
    node = cluster.add_node(num_cpus=1, num_gpus=1)
    await pool.start()
    began = time.monotonic()
    while not any(device["state"] == "failed" for device in pool.health()["devices"]):
        assert time.monotonic() - began < 120.0, pool.health()
        await asyncio.sleep(0.2)
    assert "given up after 3 tries" in pool.health()["message"]
    assert "WrongDeviceError" in pool.health()["message"]
    answer = await pool.evaluate(request(RIGHT, budget_s=1.0))
    assert answer.outcome.kind == "infrastructure"
    await pool.close()
    cluster.remove_node(node)


async def test_without_a_cluster_the_pool_says_so() -> None:
    pool = pool_on(type("Nowhere", (), {"address": "127.0.0.1:1"}))
    await pool.start()
    began = time.monotonic()
    while "no Ray cluster at 127.0.0.1:1" not in pool.health()["message"]:
        assert time.monotonic() - began < 60.0, pool.health()
        await asyncio.sleep(0.2)
    assert pool.health()["state"] == "starting"
    await pool.close()
    assert pool.health()["state"] == "failed"


async def test_a_gpu_must_be_the_one_that_was_assigned() -> None:
    from kernel_env.server.ray_host import WrongDeviceError, assigned_gpu

    assert assigned_gpu(["GPU-1"], "GPU-1") == "GPU-1"
    for assigned, visible in ((["GPU-1"], "GPU-2"), (["0"], ""), (["0"], "0,1"), ([], ""), (["0", "1"], "0,1")):
        with pytest.raises(WrongDeviceError):
            assigned_gpu(assigned, visible)


def power_off(node: Any) -> None:
    """Everything of a node ends at one moment, as with its machine's power."""
    (raylet,) = (info.process.pid for info in node.all_processes["raylet"])
    everyone = [raylet, *descendants(raylet)]
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    for pid in reversed(everyone):
        os.kill(pid, signal.SIGKILL)
