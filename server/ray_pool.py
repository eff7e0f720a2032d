"""The pool on a Ray cluster: one actor for each GPU, or for each node where CPUs evaluate; nodes come and go.

The server is a driver of the cluster and needs no device itself. It looks at the cluster's nodes once a second;
each new one gets its actors, those of one that has left are dropped, and what they were evaluating is tried once
elsewhere. All devices are of one model: the one that `KERNEL_ENV_GPU_MODEL` names, or else the first that is
ready; "any" mixes them. With the cluster's head this process ends too: that is how Ray works.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import ray

from .config import Settings
from .fleet import CLOSED, Fleet, FleetPool
from .outcome import Device
from .ray_seat import RaySeat
from .seat import DeviceKind

SCAN_S = 1.0
CONNECT_S = 5.0
CONNECT_AGAIN_S = 5.0
ASK_S = 20.0

_logger = logging.getLogger(__name__)


class RayPool(FleetPool):
    """See `pool.Pool` for the contract. `evaluator` "auto" means GPUs: the server's own machine does not count."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kind: DeviceKind = "cpu" if settings.evaluator == "cpu" else "cuda"
        super().__init__(Fleet(self._kind, fixed=False))
        self._model = settings.gpu_model
        self._nodes: dict[str, list[tuple[RaySeat, asyncio.Task[None]]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._connected = False

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        self._fleet.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(self._drop(node, CLOSED) for node in list(self._nodes)))
        if self._connected:
            self._connected = False
            await asyncio.to_thread(ray.shutdown)

    async def _keep(self) -> None:
        while not self._connected:
            try:
                await _beside(self._connect)
                self._connected = True
            except (OSError, ValueError, RuntimeError) as error:
                self._tell(f"no Ray cluster at {self._settings.ray_address}: {_line(error)}")
                await asyncio.sleep(CONNECT_AGAIN_S)
        while True:
            try:
                await self._scan()
            except (TimeoutError, ray.exceptions.RayError, ConnectionError) as error:
                self._tell(f"the Ray cluster does not answer: {_line(error)}")
            await asyncio.sleep(SCAN_S)

    def _connect(self) -> None:
        address = urlsplit(f"//{self._settings.ray_address.rpartition('//')[2]}")
        if address.hostname and address.port:  # Ray itself would wait for minutes, and could not be stopped
            socket.create_connection((address.hostname, address.port), CONNECT_S).close()
        # Not on the main thread, so that Ray leaves the signals' handlers alone.
        ray.init(
            address=self._settings.ray_address,
            namespace="kernel_env",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )

    async def _scan(self) -> None:
        nodes = await asyncio.wait_for(asyncio.to_thread(ray.nodes), ASK_S)
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        for name in self._nodes.keys() - alive.keys():
            _logger.warning("a node of the cluster has left: %s", name)
            await self._drop(name, "its node has left the cluster")
        for name in alive.keys() - self._nodes.keys():
            self._nodes[name] = [self._seated(alive[name], number) for number in range(self._devices(alive[name]))]
        seats = [seat for node in self._nodes.values() for seat, _ in node]
        self._fleet.places = seats
        self._tell("" if seats else f"no node of the Ray cluster has a {self._resource} to spare")

    @property
    def _resource(self) -> str:
        return "GPU" if self._kind == "cuda" else "CPU"

    def _devices(self, node: dict[str, Any]) -> int:
        """GPUs of a node; its CPUs are one device together."""
        amount = int(node["Resources"].get(self._resource, 0))
        return amount if self._kind == "cuda" else min(amount, 1)

    def _seated(self, node: dict[str, Any], number: int) -> tuple[RaySeat, asyncio.Task[None]]:
        share = node["Resources"].get("CPU", 0.0) // self._devices(node)
        seat = RaySeat(
            settings=self._settings,
            kind=self._kind,
            node=node["NodeID"],
            where=f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}/{number}",
            cpus=self._settings.ray_cpus or max(share, 0.0),
            changed=self._fleet.changed,
            welcome=self._welcome,
        )
        return seat, asyncio.create_task(seat.keep())

    def _welcome(self, newcomer: RaySeat, device: Device) -> str:
        """Why a device may not take part: each is there once, and all are of one model."""
        self._model = self._model or device.name
        if self._model not in ("any", device.name):
            return f"{device.name} is left out: this server evaluates on {self._model} (KERNEL_ENV_GPU_MODEL)"
        others = [seat for node in self._nodes.values() for seat, _ in node if seat is not newcomer]
        twins = [seat for seat in others if seat.device and seat.device.uuid == device.uuid]
        if device.uuid and any(seat.state == "ready" for seat in twins):
            return f"{device.uuid} is served already"
        return ""

    async def _drop(self, node: str, reason: str) -> None:
        for seat, task in self._nodes.pop(node):
            seat.retire(reason)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._fleet.places = [seat for seated in self._nodes.values() for seat, _ in seated]
        self._fleet.changed.set()

    def _tell(self, message: str) -> None:
        if message != self._fleet.message:
            self._fleet.message = message
            if message:
                _logger.warning("%s", message)
            self._fleet.changed.set()


async def _beside(work: Callable[[], object]) -> None:
    """Wait for `work` in a thread that nobody else waits for: this process may end before it does."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error = None
        try:
            work()
        except Exception as raised:  # whatever it is, it is raised where it is waited for
            error = raised
        with suppress(RuntimeError):  # the loop has gone
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, daemon=True, name="ray-connects").start()
    await done


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
