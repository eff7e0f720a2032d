"""A Modal container's device: it takes no more work once something of ours has failed there, and Modal ends it.

Another container, maybe on another machine, takes what comes next; the pool's second try goes there.
"""

from __future__ import annotations

from typing import Any

import modal.experimental

from .config import Settings
from .host import Host
from .local import device_kind


class ModalHost(Host):
    async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]:
        evaluation = await super().evaluate(request, waited_s, alone)
        outcome = evaluation["outcome"]
        if outcome["kind"] == "infrastructure" and outcome["retryable"]:
            await self.give_up()
        return evaluation

    async def give_up(self) -> None:
        if not modal.is_local():
            await modal.experimental.stop_fetching_inputs.aio()


def make() -> ModalHost:
    """The host of the one device that the container has, by the settings of its environment."""
    settings = Settings.from_env()
    return ModalHost(settings, device_kind(settings), "0")
