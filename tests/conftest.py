"""Servers under test: real processes on free loopback ports, each ended by its own pid.

Test files run side by side with `-n auto`, one more than there are cores, as many wait for a deadline, and those
with slow tests first; but one at a time where there is a GPU, which they would share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from kernel_env.server.local import visible_gpus

from .serving import PLAIN, SCRIPTED, Server

# In the tests' own processes, which share the cores: torch's threads spin while they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# openenv does without it; to import it takes each test process 4 s.
sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]

Launch = Callable[..., Server]
MOST_WORKERS = 4


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return 1 if visible_gpus() else min(len(os.sched_getaffinity(0)) + 1, MOST_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """`launch(scripted=False, **settings)` starts a server; all are stopped when the module is done."""
    servers: list[Server] = []

    def start(scripted: bool = False, **settings: str) -> Server:
        arguments = (SCRIPTED,) if scripted else PLAIN
        server = Server(arguments, settings, tmp_path_factory.mktemp("server"))
        servers.append(server)
        return server.wait_until_up()

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.stop()
