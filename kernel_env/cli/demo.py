"""`kernel-env demo`: one full episode on this machine, through a real server, client and evaluator.

Starts a server of its own on a free loopback port with the embedded tasks, submits a wrong kernel and then a
right one, shows what comes back, and ends the server. Everything together is bounded by `DEMO_S`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .console import err, fail, leave_gradio_out, out, progress
from .evaluate import show

if TYPE_CHECKING:
    from kernel_env import KernelObservation

TASK = "level2/e02_PolynomialActivation"
DEMO_S = 600
SERVER_START_S = 60.0
SERVER_STOP_S = 20.0


def demo() -> None:
    """Play a full episode on this machine's device: a wrong kernel, its feedback, then a right one."""
    began = time.monotonic()
    evaluator = _evaluator()
    out.print(f"task {TASK}: {evaluator} evaluator", style="bold")
    with _at_most(DEMO_S), _server(evaluator) as url:
        _play(url)
    out.print(f"\nDone in {time.monotonic() - began:.0f} s. To keep a server running:", style="bold")
    out.print("    kernel-env serve                 (make serve in a checkout)")
    out.print("    kernel-env eval FILE --task ID --url http://localhost:8000")


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """End the command if the block takes longer; what the block holds is released on the way."""

    def expire(signum: int, frame: object) -> NoReturn:
        err.print(f"kernel-env: the demo did not end within {seconds} s", style="red")
        raise SystemExit(1)  # not an Exception: it may arrive anywhere, and must not be handled there

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _evaluator() -> str:
    chosen = os.environ.get("KERNEL_ENV_EVALUATOR", "")
    if chosen:
        return chosen
    if importlib.util.find_spec("torch") is None:
        err.print("torch is not installed: playing on the mock evaluator, whose times are fake", style="yellow")
        return "mock"
    return "auto"


def _play(url: str) -> None:
    leave_gradio_out()
    with progress("Starting the client"):
        from kernel_env import KernelEnv, KernelEnvError
    try:
        with KernelEnv(base_url=url, message_timeout_s=DEMO_S).sync() as env:
            correct = _episode(env)
    except (KernelEnvError, ConnectionError) as error:
        fail(error)
    if not correct:
        fail("the right submission did not pass: kernel-env doctor says what this machine lacks")


def _episode(env: Any) -> bool:
    """Play on a blocking client; whether the last submission was correct."""
    from kernel_env import KernelAction

    with progress("Waiting for the device"):
        device = env.reset(task_id=TASK).observation.metadata["device"]
    language = _language(device["kind"])
    out.print(f"device {device['name']} ({device['kind']}), language {language}", markup=False)
    first: KernelObservation = env.reset(task_id=TASK, language=language).observation
    out.print(f"problem text of {len(first.problem)} characters, {first.max_turns} submissions allowed")
    for name in ("wrong", "right"):
        code = _submission(f"{name}_{'cpp' if language == 'cpp' else 'triton'}")
        out.print(f"\nSubmission: {name}", style="bold")
        out.print(code.split("\n", 1)[0].strip('"'), style="dim", markup=False)
        with progress("Checking, building, comparing and timing"):
            seen: KernelObservation = env.step(KernelAction(code=code)).observation
        _show(seen)
    return seen.correct


def _show(seen: KernelObservation) -> None:
    show(seen.model_dump())
    durations: dict[str, Any] = seen.metadata.get("durations", {})
    told = "  ".join(f"{name} {seconds:.2f} s" for name, seconds in durations.items())
    out.print(f"[{told}]", style="dim", markup=False)


def _language(device: str) -> str:
    """C++ is timed on a CPU; Triton is not, but needs no compiler there."""
    return "cpp" if device == "cpu" and shutil.which("g++") else "triton"


def _submission(name: str) -> str:
    return resources.files("kernel_env").joinpath("demos", f"{name}.py").read_text()


@contextmanager
def _server(evaluator: str) -> Iterator[str]:
    """The URL of a server that lives as long as the block; its output is shown if it does not start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "KERNEL_ENV_HOST": "127.0.0.1",
        "KERNEL_ENV_PORT": str(port),
        "KERNEL_ENV_EVALUATOR": evaluator,
        "KERNEL_ENV_TASKS": "embedded",
    }
    with tempfile.TemporaryDirectory(prefix="kernel-env-demo-") as folder:
        log = Path(folder, "server.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "kernel_env.cli", "serve"],
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            with progress("Starting the server"):
                _await_health(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + SERVER_START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with direct.open(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    told = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    fail(f"the server did not start:\n{told}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(SERVER_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
