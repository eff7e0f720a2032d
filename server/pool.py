"""The interface between the server and whatever evaluates: `Pool`.

A pool takes an `EvaluationRequest` and returns exactly one `Evaluation`. It never raises for anything a
submission does, nor for faults of its own: those are `Infrastructure` outcomes, retried once inside the
pool where that can help. Cancelling the awaiting task abandons the evaluation: its queued work is dropped
and its running candidate ended within a second. A request that comes again is not evaluated again (see `once`).
It does not know sessions, rewards or openenv. `conformance` holds a pool to all of this.
"""

from __future__ import annotations

from typing import Any, Protocol

from .outcome import Device, Evaluation, EvaluationRequest


class Pool(Protocol):
    """`local`: workers on this host; `ray`: actors of a cluster; `modal`: containers; `mock`: nothing is run."""

    async def start(self) -> None:
        """Begin starting the workers; returns at once."""

    async def ready(self, timeout_s: float) -> Device | None:
        """Wait until a device can evaluate; the device, or None when the bound passes or all have failed."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation: ...

    async def stage(self, request_id: str) -> str:
        """What a running evaluation is at, in the words of `Evaluation.durations`, for people who watch.

        Empty where it has not begun, has ended, or the pool can't tell. Bounded, and cheap enough to be asked
        several times a second.
        """

    def health(self) -> dict[str, Any]:
        """JSON-able: `state` ("starting" | "ready" | "failed"), `devices`, `queued`, `running`, `message`.

        Where submissions run, also `sandbox`: the layers by name, as `layers.Report` tells them.
        """

    async def close(self) -> None:
        """End every process this pool started; idempotent and bounded."""
