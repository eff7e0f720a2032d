"""The pool on this host: one worker process for each device (`seat`), submissions dealt out by a `Fleet`."""

from __future__ import annotations

import asyncio
import os
import re

from . import cores, landlock
from .config import Settings, SettingsError
from .fleet import CLOSED, Fleet, FleetPool
from .folders import sweep
from .kernel import close_to_others
from .seat import DeviceKind, Seat


class LocalPool(FleetPool):
    """See `pool.Pool` for the contract. Raises `SettingsError` for settings that ask for a GPU where none is."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        kind = device_kind(settings)
        indices = (settings.gpus or visible_gpus()) if kind == "cuda" else ("0",)
        if not indices:
            raise SettingsError(_lacking("KERNEL_ENV_EVALUATOR=gpu", "use auto or cpu"))
        if settings.gpus and settings.evaluator == "auto" and kind == "cpu":
            raise SettingsError(_lacking(f"KERNEL_ENV_GPUS={','.join(settings.gpus)}", "leave it unset"))
        super().__init__(Fleet(kind, fixed=True))
        dealt = cores.shares(indices, cores.allowed())
        self._seats = [
            Seat(settings, kind, index, self._fleet.changed, share, cores.builds(len(share)))
            for index, share in zip(indices, dealt, strict=True)
        ]
        self._fleet.places = self._seats
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if not self._tasks:
            if self._settings.sandbox != "off" and not landlock.abi():
                close_to_others()  # Landlock does the same
            await asyncio.to_thread(sweep)
            self._tasks = [asyncio.create_task(seat.keep()) for seat in self._seats]

    async def close(self) -> None:
        """Whoever waits for an evaluation, now or later, is told at once."""
        self._fleet.close()
        for seat in self._seats:
            seat.retire(CLOSED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


def device_kind(settings: Settings) -> DeviceKind:
    """What `settings.evaluator` means on this machine; "auto" takes a GPU whose driver is present."""
    if settings.evaluator == "gpu":
        return "cuda"
    if settings.evaluator == "auto" and visible_gpus():
        return "cuda"
    return "cpu"


def _lacking(asked: str, instead: str) -> str:
    masked = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = "/dev has no nvidia device" if masked is None else f"CUDA_VISIBLE_DEVICES={masked!r}"
    return f"{asked} needs a GPU, and none is visible ({why}): give the container one, or {instead}"


def visible_gpus() -> tuple[str, ...]:
    """The devices this process may use, found without creating a context or importing torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(part.strip() for part in chosen.split(",") if part.strip() and part.strip() != "-1")
    try:
        nodes = os.listdir("/dev")
    except OSError:
        return ()
    return tuple(sorted((n[6:] for n in nodes if re.fullmatch(r"nvidia\d+", n)), key=int))
