"""Many sessions while processes are killed: `python -m benchmarks.chaos`. README.md explains the columns.

A real server in a process of its own, on the CPU or a GPU, or on a Ray cluster of this machine (`--nodes`). Every
session sends submissions whose outcome is known, one after another. Meanwhile, again and again, a worker, a judge,
a zygote or a whole node is killed. Each step must get one typed answer: the outcome that is right, or a fault of
ours. Status 1 if one was wrong, lost, or came twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kernel_env.server.conformance import FAULTS, submission

from .machine import machine, show
from .subject import Subject, command, started, stat, tree
from .tables import table

ROOT = Path(__file__).resolve().parents[1]
TASK = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 64)]


def get_init_inputs():
    return []
"""
KINDS = {
    "passed": submission(),
    "wrong_output": FAULTS["wrong_output"],
    "raised": FAULTS["raised"],
    "timed_out": submission("while True: pass"),
}
"""Outcomes and submissions; the endless one is rare, as each holds its device for the time limit."""
WEIGHTS = (60, 20, 18, 2)
ENDLESS_S = 5.0
REPLY_S = 1200.0
OPENING = 32
PROCESSES = ("worker", "judge", "zygote")
PACKAGES = ("openenv", "torch", "websockets")


@dataclass
class Tally:
    """What became of the steps. `wrong`: another verdict than the known one; `lost`: none; `twice`: two."""

    right: int = 0
    faults: int = 0
    wrong: list[str] = field(default_factory=list)
    lost: int = 0
    twice: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return self.right + self.faults + len(self.wrong) + self.lost


def main() -> None:
    options = _options()
    show(machine(PACKAGES))
    tally = Tally()
    begun = time.monotonic()
    with _cluster(options.nodes) as cluster, _folder() as folder:
        environ = {
            "KERNEL_ENV_TASKS": str(folder),
            "KERNEL_ENV_EVALUATOR": options.evaluator,
            "KERNEL_ENV_MAX_SESSIONS": str(options.sessions),
            "KERNEL_ENV_MAX_TURNS": "1000",
            "KERNEL_ENV_TRIALS": "2",
            "KERNEL_ENV_CORRECTNESS_TIMEOUT_S": str(ENDLESS_S),
        }
        if cluster is not None:
            environ |= {"KERNEL_ENV_POOL": "ray", "KERNEL_ENV_RAY_ADDRESS": cluster.address}
        with started("kernel_env.server.app", environ, ROOT) as server:
            asyncio.run(_play(server, cluster, options, tally))
    print(_shown(tally, time.monotonic() - begun), flush=True)
    if tally.wrong or tally.lost or tally.twice:
        print(*tally.wrong[:10], sep="\n")
        sys.exit(1)


async def _play(server: Subject, cluster: Any, options: argparse.Namespace, tally: Tally) -> None:
    end = time.monotonic() + options.seconds
    opening = asyncio.Semaphore(OPENING)
    sessions = [
        asyncio.create_task(_session(server.url, random.Random(number), end, opening, tally))
        for number in range(options.sessions)
    ]
    killing = asyncio.create_task(_kill(server, cluster, options.every, end, tally))
    await asyncio.gather(*sessions)
    await killing


async def _session(url: str, dice: random.Random, end: float, opening: asyncio.Semaphore, tally: Tally) -> None:
    async with opening:
        socket = await connect(url, proxy=None, max_size=None, open_timeout=60.0, ping_timeout=None)
    async with socket:
        await _reset(socket, tally)
        number = 0
        while time.monotonic() < end:
            number += 1
            kind = dice.choices(list(KINDS), WEIGHTS)[0]
            code = f"# {dice.random()}\n{KINDS[kind]}"
            metadata = {"request_id": f"{number}-{dice.random()}"}
            await _step(socket, kind, {"code": code, "metadata": metadata}, tally)
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(0.2):
                tally.twice += bool(await socket.recv())


async def _reset(socket: ClientConnection, tally: Tally) -> None:
    """Wait until the server can evaluate, as a client does."""
    while True:
        await socket.send(json.dumps({"type": "reset", "data": {"task_id": "level1/1_ReLU"}}))
        reply = json.loads(await asyncio.wait_for(socket.recv(), REPLY_S))
        if reply["type"] != "error":
            return
        tally.refused[reply["data"]["code"]] += 1
        await asyncio.sleep(1.0)


async def _step(socket: ClientConnection, kind: str, action: dict[str, Any], tally: Tally) -> None:
    sent = time.monotonic()
    await socket.send(json.dumps({"type": "step", "data": action}))
    try:
        reply = json.loads(await asyncio.wait_for(socket.recv(), REPLY_S))
    except (TimeoutError, ConnectionClosed):
        tally.lost += 1
        raise
    tally.seconds.append(time.monotonic() - sent)
    if reply["type"] == "error":
        tally.refused[reply["data"]["code"]] += 1
        tally.faults += 1
        await _reset(socket, tally)
        return
    told = reply["data"]["observation"]
    metadata = reply["data"].get("metadata") or told.get("metadata") or {}
    if metadata.get("request_id") != action["metadata"]["request_id"]:
        tally.twice += 1
    elif told["infrastructure_fault"]:
        tally.faults += 1
    elif metadata.get("outcome") == kind:
        tally.right += 1
    else:
        tally.wrong.append(f"{kind} expected: {metadata.get('outcome')}: {told['feedback'][:300]}")
    if reply["data"]["done"]:
        await _reset(socket, tally)


async def _kill(server: Subject, cluster: Any, every_s: float, end: float, tally: Tally) -> None:
    dice = random.Random(0)
    roots = [os.getpid()] if cluster is not None else [server.pid]
    while time.monotonic() < end - every_s:
        await asyncio.sleep(every_s)
        victims = [*PROCESSES, "node"] if cluster is not None else list(PROCESSES)
        victim = dice.choice(victims)
        if victim == "node":
            _replace_node(cluster, dice)
            tally.kills[victim] += 1
        elif pids := [pid for root in roots for pid in tree(root) if _is(victim, pid)]:
            os.kill(dice.choice(pids), signal.SIGKILL)
            tally.kills[victim] += 1


def _replace_node(cluster: Any, dice: random.Random) -> None:
    """One ends with all that runs on it; another joins. Blocks for seconds: Ray needs the main thread."""
    node = dice.choice(sorted(cluster.worker_nodes, key=lambda node: node.node_id))
    for info in node.all_processes["raylet"]:
        everyone = tree(info.process.pid)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everyone:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
    cluster.worker_nodes.discard(node)
    cluster.add_node(num_cpus=1)


@contextmanager
def _cluster(nodes: int) -> Iterator[Any]:
    """A Ray cluster that listens on loopback alone; None without nodes."""
    if not nodes:
        yield None
        return
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1)
    try:
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def _folder() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        level = Path(folder) / "level1"
        level.mkdir()
        (level / "1_ReLU.py").write_text(TASK)
        yield Path(folder)


def _is(name: str, pid: int) -> bool:
    """A process started by this name, none that it forked: to kill a candidate is to change its verdict."""
    parent = int(stat(pid)[1])
    return f"server.{name}" in command(pid) and f"server.{name}" not in command(parent)


def _shown(tally: Tally, wall_s: float) -> str:
    ordered = sorted(tally.seconds) or [0.0]
    kills = ", ".join(f"{count} {name}" for name, count in sorted(tally.kills.items())) or "none"
    header = ["killed", "steps", "right", "our fault", "wrong", "lost", "twice", "p50 s", "p99 s", "wall s"]
    numbers = [tally.steps, tally.right, tally.faults, len(tally.wrong), tally.lost, tally.twice]
    times = [ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], wall_s]
    row = [kills, *map(str, numbers), *(f"{seconds:.1f}" for seconds in times)]
    refused = ", ".join(f"{count} {code}" for code, count in tally.refused.items())
    return table(header, [row]) + (f"\nrefused and asked again: {refused}" if refused else "")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between kills")
    parser.add_argument("--nodes", type=int, default=0, help="of a Ray cluster, started here; 0: this host's pool")
    parser.add_argument("--evaluator", default="cpu", choices=("cpu", "gpu"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
