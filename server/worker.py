"""The supervisor of one device: one submission after another, or side by side as far as its stages allow.

`python -m kernel_env.server.worker FD PARENT CONFIG` serves a pool over an inherited socket. It never imports
torch and never creates a device context. The death of judge or zygote is `Infrastructure`, and a new one is
started for the next submission.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .budget import Budget
from .child import StartFailed, StartRefusedError
from .frames import TRUSTED_CAP, FrameError, Stream
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .processes import Processes
from .sandbox import adopt_orphans, close_to_others, die_with_parent
from .stages import Stages, Verdict

OURS_S = 5.0  # what judge and zygote may take beyond the step's time, so that the submission's share is known

_logger = logging.getLogger(__name__)


class Worker:
    """One device. `config` is what `local` sends: device, index, folder, limits, tolerances."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.processes = Processes(config)
        self._stages = Stages(config, self.processes)

    @property
    def sandbox(self) -> dict[str, dict[str, str]]:
        return self.processes.confinement.report.json()

    async def start(self) -> Device:
        """Raises `StartFailed`."""
        await self.processes.start()
        return self.processes.device

    async def close(self) -> None:
        await self.processes.close()

    async def evaluate(
        self, request: EvaluationRequest, waited_s: float, hear: Callable[[str], None] | None = None
    ) -> Evaluation:
        """Never raises but for cancellation. `waited_s` of the request's budget have passed already.

        `hear` gets the name of each stage that begins.
        """
        budget = Budget(request.budget_s, waited_s, hear)
        try:
            async with asyncio.timeout(budget.left_s + OURS_S):
                verdict = await self._stages.run(request, budget)
        except TimeoutError:
            verdict = Verdict(budget.spent())
        except (FrameError, StartFailed) as error:
            verdict = Verdict(Infrastructure(message=str(error)))
        return Evaluation(
            outcome=verdict.outcome,
            device=self.processes.device,
            durations=budget.durations,
            task_hash=request.task.hash,
            code_hash=hashlib.sha256(request.code.encode()).hexdigest()[:16],
            seeds_digest=verdict.seeds_digest,
            peak_bytes=verdict.peak_bytes,
        )


async def serve(pool: Stream, worker: Worker) -> None:
    """Answer a pool until it closes the socket; its requests run side by side."""
    running: dict[str, asyncio.Task[None]] = {}

    async def answer(request: EvaluationRequest, waited_s: float) -> None:
        try:
            hear = lambda stage: pool.hint({"id": request.id, "stage": stage})  # noqa: E731
            evaluation = await worker.evaluate(request, waited_s, hear)
            reply: dict[str, Any] = {"evaluation": evaluation.model_dump()}
        except asyncio.CancelledError:
            reply = {"cancelled": True}
        except Exception:  # whatever else this process gets wrong is told, so that nobody waits for it
            _logger.exception("evaluation %s", request.id)
            reply = {"fault": "the worker failed; its log has the cause"}
        finally:
            running.pop(request.id, None)
        with suppress(FrameError):  # a pool that is gone ends this process at its next read
            await pool.send({"id": request.id, **reply})

    try:
        while True:
            message = await pool.receive()
            if message["op"] == "evaluate":
                request = EvaluationRequest.model_validate(message["request"])
                running[request.id] = asyncio.create_task(answer(request, message["waited_s"]))
            elif task := running.get(message["id"]):
                task.cancel()
    except FrameError:
        for task in list(running.values()):
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def run(fd: int, config: dict[str, Any]) -> None:
    pool = await Stream.adopt(socket.socket(fileno=fd), TRUSTED_CAP)
    running = asyncio.current_task()
    assert running is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    if config["cores"]:
        os.sched_setaffinity(0, config["cores"])
    worker = Worker(config)
    try:
        device = await worker.start()
        await pool.send({"device": device.model_dump(), "sandbox": worker.sandbox})
        await serve(pool, worker)
    except StartFailed as error:
        final = isinstance(error, StartRefusedError)
        with suppress(FrameError):
            await pool.send({"failed": str(error), "final": final, "sandbox": worker.sandbox})
    except FrameError:
        _logger.info("the pool went before the device was up")
    finally:
        await worker.close()


def main() -> None:
    die_with_parent(int(sys.argv[2]))
    adopt_orphans()
    close_to_others()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(asyncio.CancelledError):  # SIGTERM, by which a pool ends a worker that is still coming up
        asyncio.run(run(int(sys.argv[1]), json.loads(sys.argv[3])))


if __name__ == "__main__":
    main()
