"""Pools on CUDA devices: this host's and a Ray cluster's conform; on Ray each GPU is served once, by its UUID."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.conformance import CHECKS, Subject, undergo
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.pool import Pool

from .processes import end_the_busy_worker, find

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.asyncio(loop_scope="module"),
]

WITH_RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a cluster of one node, which has this machine's GPUs. It listens on loopback alone."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_gpus=len(visible_gpus()), include_dashboard=False)
    yield str(cluster.address)
    cluster.shutdown()


async def everywhere_ready(pool: Pool) -> None:
    began = time.monotonic()
    while [device["state"] for device in pool.health()["devices"]] != ["ready"] * len(visible_gpus()):
        assert time.monotonic() - began < 240.0, pool.health()
        await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", pytest.param("ray", marks=WITH_RAY)])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    pool: Pool
    if request.param == "local":
        pool = LocalPool(Settings(evaluator="gpu", timing_budget_s=0.5))
    else:
        from kernel_env.server.ray_pool import RayPool

        address = request.getfixturevalue("address")
        pool = RayPool(Settings(pool="ray", ray_address=address, timing_budget_s=0.5))
    await pool.start()
    await everywhere_ready(pool)
    device = await pool.ready(1.0)
    assert device is not None
    yield Subject(pool, device, end_the_busy_worker)
    await pool.close()
    began = time.monotonic()
    while left := find("kernel_env.server"):
        assert time.monotonic() - began < 20.0, left
        await asyncio.sleep(0.2)


async def test_each_device_is_served_once(subject: Subject) -> None:
    told = subject.pool.health()["devices"]
    assert len({device.get("uuid") or device["index"] for device in told}) == len(visible_gpus())
    assert subject.device.uuid is not None
    assert subject.device.uuid.startswith("GPU-")


@pytest.mark.parametrize("check", CHECKS)
async def test_it_conforms(subject: Subject, check: str) -> None:
    result = await undergo(subject, check)
    assert result.state == "held", result
