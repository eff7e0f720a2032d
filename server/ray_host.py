"""The actor that hosts one device on a node of a Ray cluster.

Its process never creates a device context and never forks: the worker is started by exec, as on any host. It ends
by `os._exit` when the device is given up; an exception would leave the actor where it is. Ray then starts it anew,
never its evaluations: the pool decides what is tried again.
"""

from __future__ import annotations

import asyncio
import os

import ray

from .config import Settings
from .host import Host
from .seat import DeviceKind

TOLD_S = 1.0


class WrongDeviceError(RuntimeError):
    """The device that Ray assigned and the one that the process would use are two, or unknown."""


class RayHost(Host):
    """An asynchronous actor. Raises `WrongDeviceError` when made."""

    def __init__(self, settings: Settings, kind: DeviceKind, builds: int = 0) -> None:
        index = "0"
        if kind == "cuda":
            assigned = ray.get_runtime_context().get_accelerator_ids()["GPU"]
            index = assigned_gpu([str(gpu) for gpu in assigned], os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        super().__init__(settings, kind, index, builds)

    async def give_up(self) -> None:
        await asyncio.sleep(TOLD_S)  # whoever watches is told why
        os._exit(1)


def assigned_gpu(assigned: list[str], visible: str) -> str:
    """The UUID of the GPU that this process was given. Raises `WrongDeviceError`.

    Ray tells it twice, by its own word and by `CUDA_VISIBLE_DEVICES`, which a process that is used again may have
    kept from before.
    """
    if len(assigned) != 1 or visible.split(",") != assigned:
        raise WrongDeviceError(f"Ray assigned the GPUs {assigned}, and CUDA_VISIBLE_DEVICES is {visible!r}")
    return assigned[0] if assigned[0].startswith(("GPU-", "MIG-")) else _uuid(int(assigned[0]))


def _uuid(index: int) -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError as error:
        raise WrongDeviceError(f"the driver does not know GPU {index}: {error}") from error
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)
