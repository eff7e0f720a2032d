"""A real server for the conformance tests: one process, mock evaluator, a free loopback port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

START_S = 60.0

Launch = Callable[[list[str], dict[str, str]], str]


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Start `python ARGUMENTS...` with `{port}` filled in; its URL once `GET /health` answers."""
    started: list[subprocess.Popen[bytes]] = []

    def run(arguments: list[str], environ: dict[str, str]) -> str:
        port = free_port()
        log = tmp_path_factory.mktemp("server") / "output.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *(part.format(port=port) for part in arguments)],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        await_health(f"http://127.0.0.1:{port}", process, log)
        return f"http://127.0.0.1:{port}"

    yield run
    for process in started:
        process.terminate()
    for process in started:
        process.wait(20)


@pytest.fixture(scope="session")
def server(launch: Launch) -> str:
    """The URL of a kernel_env server on the mock evaluator."""
    return launch(
        ["-m", "kernel_env.cli", "serve", "--port", "{port}", "--evaluator", "mock", "--max-turns", "4"],
        {"KERNEL_ENV_TASKS": "embedded", "KERNELBENCH_DIR": ""},
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", timeout=2.0, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
        time.sleep(0.05)
    raise AssertionError(f"no answer within {START_S:g} s: {log.read_text()[-2000:]}")
