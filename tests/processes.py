"""Looks at the processes below this one, through /proc."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path


def descendants(root: int) -> list[int]:
    """Every live process below `root`, parents first."""
    found = []
    try:
        tasks = list(Path(f"/proc/{root}/task").iterdir())
        listings = [(task / "children").read_text() for task in tasks]
    except (FileNotFoundError, ProcessLookupError):
        return []
    for child in " ".join(listings).split():
        found += [int(child), *descendants(int(child))]
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def folder_of(worker: int) -> Path:
    """The folder that a worker's submissions run in, by what the worker was started with."""
    *_, config = Path(f"/proc/{worker}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return Path(json.loads(config)["folder"])


def descriptors(pid: int) -> int:
    """How many a process has open; its list is closed to us where it is no more ours to look at."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return os.stat(f"/proc/{pid}/fd").st_size


def find(text: str, leaf: bool = True) -> list[int]:
    """Our descendants with `text` in the command line; without `leaf`, not those forked from a match."""
    matches = [pid for pid in descendants(os.getpid()) if text in command(pid)]
    if leaf:
        return matches
    return [pid for pid in matches if parent(pid) not in matches]


def alive(pid: int) -> bool:
    """Still running: neither gone nor waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def cpu_s(pid: int) -> float:
    """Processor time that the process itself has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until_running(zygote: int) -> int:
    """Wait until a candidate (not a build child) has run for a moment; its pid."""
    for _ in range(300):
        children = descendants(zygote)
        await asyncio.sleep(0.2)
        if children and children == descendants(zygote):
            return children[0]
    raise AssertionError("no candidate came up")


async def end_the_busy_worker() -> None:
    """Kill a worker that is at a submission, as soon as there is one."""
    for _ in range(100):
        for zygote in find("server.zygote", leaf=False):
            if descendants(zygote):
                os.kill(parent(zygote), signal.SIGKILL)
                return
        await asyncio.sleep(0.1)
