"""A real server in a process of its own, and a bare WebSocket client that hides nothing of the protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

START_S = 60.0
STOP_S = 30.0
REPLY_S = 30.0
SCRIPTED = str(Path(__file__).with_name("scripted_server.py"))
PLAIN = "-m", "kernel_env.cli", "serve"

CODE = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count) * 2, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


def scripted(**words: object) -> str:
    """Honest code with words for the scripted evaluator in a comment: `sleep`, `fail`, `speedup`."""
    return f"# script {json.dumps(words)}\n{CODE}"


class Server:
    """The process, its output files and its address."""

    def __init__(
        self, arguments: tuple[str, ...], environ: dict[str, str], folder: Path, stdout: int | None = None
    ) -> None:
        """`stdout` takes the place of the file that `events` reads."""
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL")}
        settings = {"KERNEL_ENV_EVALUATOR": "mock", "KERNEL_ENV_PORT": "0", **environ}
        self.started = time.monotonic()
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, *arguments], env={**clean, **settings}, stdout=stdout or out, stderr=err
            )
        self.pid = self.process.pid
        self.url = ""

    def wait_until_up(self) -> Server:
        while not (found := re.search(r"serving on (http://\S+)", self.stderr.read_text())):
            assert self.process.poll() is None, self.stderr.read_text()
            assert time.monotonic() - self.started < START_S, self.stderr.read_text()
            time.sleep(0.02)
        self.url = found[1]
        self.get("/health")
        return self

    def stop(self) -> int:
        """End the process by SIGTERM and wait for it; its exit status."""
        self.process.terminate()
        return self.process.wait(STOP_S)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, trust_env=False, timeout=REPLY_S, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, trust_env=False, timeout=REPLY_S, **options)

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = self.get("/health").json()
        return health

    def wait_for(self, within_s: float, **expected: Any) -> float:
        """Wait until /health shows these values; the seconds it took."""
        begun = time.monotonic()
        while True:
            health = self.health()
            if all(health[name] == value for name, value in expected.items()):
                return time.monotonic() - begun
            assert time.monotonic() - begun < within_s, health
            time.sleep(0.01)

    def counts(self) -> dict[str, int]:
        """What the scripted evaluator has seen: started, cancelled, finished."""
        counts: dict[str, int] = self.health()["devices"][0]["counts"]
        return counts

    def wait_for_count(self, within_s: float, name: str, value: int) -> None:
        deadline = time.monotonic() + within_s
        while (seen := self.counts()[name]) != value:
            assert time.monotonic() < deadline, f"{name} is {seen}, not {value}"
            time.sleep(0.02)

    def connect(self, resume: str | None = None, **options: Any) -> Wire:
        query = f"/ws?resume={resume}" if resume else "/ws"
        return Wire(self.url.replace("http", "ws", 1) + query, options)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The event lines on stdout so far."""
        events = [json.loads(line) for line in self.stdout.read_text().splitlines()]
        return [event for event in events if kind in (None, event["event"])]


class Wire:
    """One WebSocket; `ask` sends a message and returns the reply frame."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._open = ExitStack()
        opening = connect(url, proxy=None, max_size=None, **options)
        self.socket: ClientConnection = self._open.enter_context(opening)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close in good order, without a close message."""
        self._open.close()

    def send(self, kind: str, data: Any = None) -> None:
        self.socket.send(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))

    def receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self.socket.recv(REPLY_S))
        return frame

    def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        self.send(kind, data)
        return self.receive()

    def raw(self, text: str | bytes) -> dict[str, Any]:
        self.socket.send(text)
        return self.receive()

    def reset(self, **data: Any) -> dict[str, Any]:
        frame = self.ask("reset", data)
        assert frame["type"] == "observation", frame
        observation: dict[str, Any] = frame["data"]
        return observation

    def step(self, code: str, **metadata: Any) -> dict[str, Any]:
        frame = self.ask("step", {"code": code, "metadata": metadata})
        assert frame["type"] == "observation", frame
        observation: dict[str, Any] = frame["data"]
        return observation

    def refused(self, kind: str, data: Any = None) -> str:
        """The code of the error frame that answers."""
        frame = self.ask(kind, data)
        assert frame["type"] == "error", frame
        code: str = frame["data"]["code"]
        return code

    def state(self) -> dict[str, Any]:
        frame = self.ask("state")
        assert frame["type"] == "state", frame
        state: dict[str, Any] = frame["data"]
        return state

    def cut(self) -> None:
        """Break the connection without a closing handshake."""
        self.socket.socket.shutdown(SHUT_RDWR)
        self.close()

    def closed(self) -> int | None:
        """Wait for the server to close; its code."""
        try:
            frame = self.socket.recv(REPLY_S)
        except ConnectionClosed as error:
            return error.rcvd.code if error.rcvd else None
        raise AssertionError(f"a frame instead of a close: {frame!r}")
