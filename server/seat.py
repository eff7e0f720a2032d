"""One device and the worker process that serves it now, for the local pool and for a host of the Ray pool.

A worker that dies is started again with a growing pause; after `START_TRIES` failures in a row the device is
given up. One that loses `FAULTS` submissions in a row is ended, as whatever fails fast attracts work; a device on
which that happens `SPELLS` times without a verdict in between is sick, and given up. What a dying worker was
evaluating is lost as a fault of ours; trying it again is the pool's decision.
Every wait ends with the request's budget or a fixed time after it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from .child import Child, StartFailed, StartRefusedError
from .company import Company
from .config import Settings
from .finish import finish
from .fleet import State, Unavailable
from .folders import Claim
from .frames import FrameError
from .outcome import Device, Evaluation, EvaluationRequest, Infrastructure
from .peaks import known, supply, unknown
from .sandbox import trusted_environment
from .wake import Signal

START_TRIES = 3
START_S = 150.0
FAULTS = 3
SPELLS = 3
PAUSE_S = 1.0
STUCK_S = 30.0
CANCEL_S = 5.0

DeviceKind = Literal["cuda", "cpu"]

_logger = logging.getLogger(__name__)


@dataclass
class Seat:
    """`refused`: failed, and starting again will not mend it.

    `cores` are its share of the host's, if they are dealt out; `builds` is how many may run at once, 0: as many as
    its cores allow.
    """

    settings: Settings
    kind: DeviceKind
    index: str
    changed: Signal
    cores: tuple[int, ...] = ()
    builds: int = 0
    state: State = "starting"
    device: Device | None = None
    message: str = ""
    submissions: int = 0
    restarts: int = 0
    refused: bool = False
    sandbox: dict[str, dict[str, str]] = field(default_factory=dict)
    _worker: Child | None = None
    _asked: dict[str, asyncio.Future[Evaluation]] = field(default_factory=dict)
    _stages: dict[str, str] = field(default_factory=dict)
    _faults: int = 0
    _spells: int = 0
    _company: Company = field(default_factory=Company)

    async def keep(self) -> None:
        """Keep a worker running until cancelled."""
        failures = 0
        self._become("starting", "")
        while failures < START_TRIES:
            try:
                await self._serve()
                failures = 0
                if self._spells >= SPELLS:
                    self.retire(f"the device is given up: it lost every submission through {SPELLS} workers")
                    return
            except StartRefusedError as error:
                self.refused = True
                self.retire(str(error))
                return
            except StartFailed as error:
                failures += 1
                self._become("starting", str(error))
            self.restarts += 1
            await asyncio.sleep(PAUSE_S * 2**failures)
        self.retire(f"no worker could be started: {self.message}")

    def retire(self, reason: str) -> None:
        """Take no more submissions."""
        self._become("failed", reason)

    async def _serve(self) -> None:
        claim = Claim()
        try:
            await self._serve_in(claim.path)
        finally:
            await finish(asyncio.to_thread(claim.release))

    async def _serve_in(self, folder: str) -> None:
        config = json.dumps({**self._config(), "folder": folder})
        worker = await Child.start("worker", [config], trusted_environment({}), folder, START_S)
        try:
            self.sandbox = worker.hello["sandbox"]
            if "failed" in worker.hello:
                raise (StartRefusedError if worker.hello["final"] else StartFailed)(str(worker.hello["failed"]))
            self._worker, self.device = worker, Device.model_validate(worker.hello["device"])
            self._become("ready", "")
            self._warn(self.device.name)
            while True:
                self._settle(await worker.stream.receive())
        except FrameError:
            self._become("starting", "the worker ended and is started again")
        finally:
            self._worker = None
            self._lose("the worker that evaluated this submission ended")
            await finish(worker.stop())

    async def evaluate(self, request: EvaluationRequest, waited_s: float, alone: bool) -> Evaluation:
        """The worker's answer; waits for a worker that is starting, while the request's budget lasts.

        `waited_s` of it have passed already. `alone`: not while the worker has other submissions.
        """
        arrived = time.monotonic() - waited_s
        self.submissions += 1
        try:
            async with AsyncExitStack() as place:
                async with asyncio.timeout(max(request.budget_s - waited_s, 0.0)):
                    await place.enter_async_context(self._company.join(alone))
                    worker = await self._ready()
                return await self._ask(worker, request, time.monotonic() - arrived)
        except TimeoutError:
            message = f"no worker was ready within the step's {request.budget_s:.3g} s"
            return self._fault(message, retryable=False)
        except Unavailable as error:
            return self._fault(str(error), retryable=True)
        finally:
            self.submissions -= 1

    async def _ready(self) -> Child:
        while self.state != "failed":
            if self._worker is not None:
                return self._worker
            await self.changed.wait()
        raise Unavailable(self.message)

    async def _ask(self, worker: Child, request: EvaluationRequest, waited_s: float) -> Evaluation:
        answer: asyncio.Future[Evaluation] = asyncio.get_running_loop().create_future()
        self._asked[request.id] = answer
        try:
            async with asyncio.timeout(max(request.budget_s - waited_s, 0.0) + STUCK_S):
                message = {"op": "evaluate", "request": request.model_dump(), "waited_s": waited_s}
                await worker.stream.send(message)
                return await answer
        except TimeoutError:
            # The worker answers within the budget whatever happens to its own processes: it is stuck itself.
            worker.kill()
            return self._fault("the device gave no answer within the step's time", retryable=False)
        except FrameError as error:
            return self._fault(str(error), retryable=True)
        finally:
            del self._asked[request.id]
            self._stages.pop(request.id, None)
            if not answer.done() or answer.cancelled():
                await finish(self._cancel(worker, request.id))

    async def _cancel(self, worker: Child, request_id: str) -> None:
        try:
            async with asyncio.timeout(CANCEL_S):
                await worker.stream.send({"op": "cancel", "id": request_id})
        except TimeoutError:
            worker.kill()
        except FrameError:
            return

    def _settle(self, message: dict[str, Any]) -> None:
        answer = self._asked.get(message["id"])
        if answer is None or answer.done():
            return
        if "evaluation" in message:
            evaluation = Evaluation.model_validate(message["evaluation"])
        elif "fault" in message:
            evaluation = self._fault(message["fault"], retryable=True)
        else:
            if "stage" in message:
                self._stages[message["id"]] = message["stage"]
            return
        answer.set_result(evaluation)
        self._weigh(evaluation)

    def _weigh(self, evaluation: Evaluation) -> None:
        outcome = evaluation.outcome
        if not isinstance(outcome, Infrastructure):
            self._faults = self._spells = 0
        elif outcome.retryable and not outcome.task:
            self._faults += 1
        if self._faults >= FAULTS and self._worker is not None:
            _logger.error("device %s lost %d submissions in a row: %s", self.index, FAULTS, outcome)
            self._faults = 0
            self._spells += 1
            ending, self._worker = self._worker, None  # nobody is to ask it any more
            self._become("starting", "the worker lost every submission and is started again")
            ending.kill()

    def _lose(self, reason: str) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(self._fault(reason, retryable=True))

    def _fault(self, reason: str, retryable: bool) -> Evaluation:
        device = self.device or Device(kind=self.kind, name="not started", index=self.index)
        return Evaluation(outcome=Infrastructure(message=reason, retryable=retryable), device=device)

    def _become(self, state: State, message: str) -> None:
        self.state, self.message = state, message
        self.changed.set()

    def _config(self) -> dict[str, Any]:
        names = [
            "trials",
            "atol",
            "rtol",
            "max_code_bytes",
            "build_timeout_s",
            "correctness_timeout_s",
            "timing_timeout_s",
            "timing_budget_s",
            "roofline_reject",
            "baseline",
            "checks",
            "precision",
            "profile",
            "sandbox",
        ]
        values = {name: getattr(self.settings, name) for name in names}
        values["peaks"] = supply(self.settings.peaks)
        tasks = [source for source in self.settings.tasks if os.path.exists(source)]
        closed = [self.settings.kernelbench_dir, self.settings.eval_log, *tasks]
        values["closed"] = [str(path) for path in closed if path]
        return {"device": self.kind, "index": self.index, "cores": self.cores, "builds": self.builds, **values}

    def _warn(self, name: str) -> None:
        if self.settings.reward == "roofline" and known(name, supply(self.settings.peaks)) is None:
            _logger.warning("%s; every correct submission gets the reward 0.3", unknown(name))

    async def stage(self, request_id: str) -> str:
        """See `pool.Pool.stage`."""
        return self._stages.get(request_id, "")

    def health(self) -> dict[str, Any]:
        """`stages`: how many submissions are in each."""
        return {
            "index": self.index,
            "state": self.state,
            "name": self.device.name if self.device else None,
            "submissions": self.submissions,
            "stages": dict(Counter(self._stages.values())),
            "restarts": self.restarts,
            "message": self.message,
            "sandbox": self.sandbox,
        }
