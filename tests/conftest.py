"""Servers under test: real processes on free loopback ports, each ended by its own pid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .serving import PLAIN, SCRIPTED, Server

Launch = Callable[..., Server]


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
