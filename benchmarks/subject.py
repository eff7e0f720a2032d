"""A server under measurement: its process, and what that costs by the kernel's own account (/proc).

The process listens on a free loopback port, has no environment settings but those given, and ends with the
`with` block. CPU time and memory are sums over the process and its live descendants. Linux only.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

START_S = 60.0
STOP_S = 15.0

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class StartError(RuntimeError):
    """The server did not come up; the text holds the end of its stderr."""


@dataclass(frozen=True)
class Subject:
    """A server that answers /health and plays episodes on /ws."""

    pid: int
    port: int
    start_s: float

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def cpu_s(self) -> float:
        """User and system time so far, in seconds; the kernel counts in ticks of 10 ms."""
        return sum(int(field) for pid in tree(self.pid) for field in stat(pid)[11:13]) * _TICK_S

    def rss_bytes(self) -> int:
        return sum(int(stat(pid)[21]) for pid in tree(self.pid)) * _PAGE_BYTES


@contextmanager
def started(
    module: str, environ: Mapping[str, str], folder: Path, cores: Collection[int] = ()
) -> Iterator[Subject]:
    """Run `python -m module` from `folder` with `KERNEL_ENV_PORT` set, on `cores` alone if there are any.

    Raises `StartError`.
    """
    port = _free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KERNEL", "ENABLE"))}
    begun = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=folder,
            env={**inherited, **environ, "KERNEL_ENV_PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        if cores:
            os.sched_setaffinity(process.pid, cores)  # before the interpreter has read a line of ours
        try:
            while not _healthy(port):
                if process.poll() is not None or time.monotonic() - begun > START_S:
                    errors.seek(0)
                    tail = errors.read()[-2000:].decode(errors="replace")
                    raise StartError(f"{module} is not healthy after {time.monotonic() - begun:.1f} s:\n{tail}")
                time.sleep(0.05)
            yield Subject(process.pid, port, time.monotonic() - begun)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _healthy(port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=5.0).status_code == 200
    return False


def tree(pid: int) -> list[int]:
    """`pid` and its live descendants."""
    pids = [pid]
    for parent in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                pids += [int(child) for child in (thread / "children").read_text().split()]
    return pids


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on (`man proc`), zeros for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 50


def command(pid: int) -> str:
    """The command line; empty for a process that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
