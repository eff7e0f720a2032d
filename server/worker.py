"""The supervisor of one device: owns judge, zygote and the device lease; runs each submission's stages.

`python -m kernel_env.server.worker FD PARENT CONFIG` serves a pool over an inherited socket. Static checks and
builds of several submissions run side by side; the lease is held by one at a time, from fork to verdict. It
never imports torch and never creates a device context. A submission's fault is an outcome; the death of judge or
zygote is `Infrastructure`, and a new one is started for the next submission.
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
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from . import trace
from .budget import Budget
from .checks import check
from .child import Child, StartFailed, StartRefusedError
from .confinement import Confinement, Home
from .finish import finish
from .forked import Forked, forked
from .frames import TRUSTED_CAP, FrameError, Stream
from .outcome import (
    BuildFailed,
    Crashed,
    Device,
    Evaluation,
    EvaluationRequest,
    Infrastructure,
    Outcome,
    OutOfMemory,
    Raised,
    Rejected,
    TimedOut,
)
from .sandbox import adopt_orphans, clean_environment, close_to_others, die_with_parent, trusted_environment
from .strays import end_strays

START_S = 120.0
JUDGE_MARGIN_S = 90.0
ENDING_S = 2.0
CUT = "The submission cut its process's link to the evaluator: leave descriptors alone that you did not open."
CANCEL_S = 15.0
OURS_S = 5.0  # what judge and zygote may take beyond the step's time, so that the submission's share is known
STAGE_LIMITS = {
    "compile": "build_timeout_s",
    "correctness": "correctness_timeout_s",
    "timing": "timing_timeout_s",
}

_logger = logging.getLogger(__name__)


class Worker:
    """One device. `config` is what `local` sends: device, index, folder, limits, tolerances."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._folder: str = config["folder"]
        self._lease = asyncio.Lock()
        self._builds = asyncio.Semaphore(max(1, (os.cpu_count() or 2) - 2))
        self._starting_judge = asyncio.Lock()
        self._starting_zygote = asyncio.Lock()
        self._judge: Child | None = None
        self._zygote: Child | None = None
        self._device: Device | None = None
        self._confinement = Confinement(config)

    @property
    def sandbox(self) -> dict[str, dict[str, str]]:
        return self._confinement.report.json()

    async def start(self) -> Device:
        """Bring judge and zygote up and find out what confines candidates; raises `StartFailed`."""
        _, zygote = await asyncio.gather(self._ready_judge(), self._ready_zygote())
        await self._confinement.settle(zygote, self._ours(), self._environment("run"))
        assert self._device is not None
        return self._device

    async def close(self) -> None:
        for child in (self._judge, self._zygote):
            if child is not None:
                await child.stop()
        await asyncio.to_thread(self._end_all)
        self._confinement.close()

    def _end_all(self) -> None:
        end_strays()
        self._confinement.end_everyone()

    async def evaluate(self, request: EvaluationRequest, waited_s: float) -> Evaluation:
        """Never raises but for cancellation. `waited_s` of the request's budget have passed already."""
        budget = Budget(request.budget_s, waited_s)
        try:
            async with asyncio.timeout(budget.left_s + OURS_S):
                verdict = await self._stages(request, budget)
        except TimeoutError:
            verdict = _Verdict(budget.spent())
        except (FrameError, StartFailed) as error:
            verdict = _Verdict(Infrastructure(message=str(error)))
        assert self._device is not None
        return Evaluation(
            outcome=verdict.outcome,
            device=self._device,
            durations=budget.durations,
            task_hash=request.task.hash,
            code_hash=hashlib.sha256(request.code.encode()).hexdigest()[:16],
            seeds_digest=verdict.seeds_digest,
            peak_bytes=verdict.peak_bytes,
        )

    async def _stages(self, request: EvaluationRequest, budget: Budget) -> _Verdict:
        refused = await self._check(request, budget)
        if refused is not None:
            return _Verdict(refused)
        async with self._confinement.home("candidate-") as home:
            async with budget.turn(self._builds):
                failed = await self._build(request, home, budget)
            if failed is not None:
                return _Verdict(failed)
            async with budget.turn(self._lease):
                verdict = await self._run(request, home, budget)
                if verdict.outcome.kind == "impossible_timing":
                    verdict = await self._run(request, home, budget)
                return verdict

    async def _check(self, request: EvaluationRequest, budget: Budget) -> Outcome | None:
        if request.mode != "submission":
            return None
        with budget.timed("checks"):
            limit = self._config["max_code_bytes"]
            return await asyncio.to_thread(check, request.code, request.language, limit)

    async def _build(self, request: EvaluationRequest, home: Home, budget: Budget) -> Outcome | None:
        """Import the submission in a child without a device; None when that went well or needs the device."""
        stage_s: float = self._config["build_timeout_s"]
        child: Forked
        outcome: Outcome | None = None
        async with self._forked("build", request, home, budget) as child:
            limit_s = budget.limit(stage_s)
            try:
                with budget.timed("build"):
                    outcome = self._build_outcome(await child.reply(limit_s))
            except TimeoutError:
                end = TimedOut(stage="compile", seconds=limit_s, message="while importing the submission")
                outcome = budget.late(end, stage_s, limit_s)
            except FrameError:
                outcome = Crashed(stage="compile")
                await child.ends(ENDING_S)
        return _with_status(outcome, child) if outcome else None

    def _build_outcome(self, reply: dict[str, Any]) -> Outcome | None:
        kind, message = reply.get("error"), trace.clip(str(reply.get("message", "")))
        if kind is None:
            return None
        if kind == "build":
            return BuildFailed(message=message)
        if kind == "violation":
            return Rejected(rule="guard", message=message)
        if self._config["device"] == "cuda" and reply.get("final") is not True:
            return None
        return (
            OutOfMemory(stage="compile", message=message)
            if kind == "memory"
            else Raised(stage="compile", message=message)
        )

    async def _run(self, request: EvaluationRequest, home: Home, budget: Budget) -> _Verdict:
        """Candidate and judge together; the lease is held."""
        with budget.timed("queue"):
            judge = await self._ready_judge()
        async with (
            self._twins(request, budget) as twins,
            self._forked("run", request, home, budget) as child,
        ):
            asking = asyncio.create_task(self._ask_judge(judge, request, [child, *twins], budget))
            try:
                reply = await asyncio.shield(asking)
            except asyncio.CancelledError:
                child.kill()
                await finish(_settle(judge, asking))
                raise
            if reply["outcome"]["kind"] == "crashed":
                await child.ends(ENDING_S)
        budget.durations.update(reply["durations"])
        outcome = Evaluation.model_validate({"outcome": reply["outcome"], "device": self._device}).outcome
        if isinstance(outcome, TimedOut):
            own_s = budget.durations["build"] + outcome.seconds
            outcome = budget.late(outcome, self._config[STAGE_LIMITS[outcome.stage]], own_s)
        return _Verdict(_with_status(outcome, child), reply["seeds_digest"], reply["peak_bytes"])

    async def _ask_judge(
        self, judge: Child, request: EvaluationRequest, children: Sequence[Forked], budget: Budget
    ) -> dict[str, Any]:
        keys = [
            "trials",
            "atol",
            "rtol",
            "build_timeout_s",
            "correctness_timeout_s",
            "timing_timeout_s",
            "timing_budget_s",
            "roofline_reject",
            "peaks",
        ]
        message: dict[str, Any] = {"task": request.task.model_dump(), "language": request.language}
        message |= {key: self._config[key] for key in keys}
        message |= {limit: budget.limit(self._config[limit]) for limit in STAGE_LIMITS.values()}
        message["left_s"] = budget.left_s
        bound_s = sum(self._config[limit] for limit in STAGE_LIMITS.values()) + JUDGE_MARGIN_S
        if self._config["baseline"] == "compile":
            bound_s += self._config["build_timeout_s"] + self._config["timing_timeout_s"]
        fds = [fd for child in children for fd in (child.link.fileno(), child.handle)]
        return await judge.ask(message, fds, bound_s, last="outcome")

    @asynccontextmanager
    async def _twins(self, request: EvaluationRequest, budget: Budget) -> AsyncIterator[list[Forked]]:
        """The reference in processes like the candidate's, to be timed beside it; none where nothing is timed.

        The first is eager, the second, if asked for, compiled.
        """
        codes = [request.task.as_submission]
        if self._config["baseline"] == "compile":
            codes.append(request.task.as_compiled)
        if self._config["device"] == "cpu" and request.language == "triton":
            codes = []
        async with AsyncExitStack() as stack:
            twins = []
            for code in codes:
                reference = request.model_copy(update={"code": code, "mode": "audit"})
                home = await stack.enter_async_context(self._confinement.home("twin-"))
                forking = self._forked("run", reference, home, budget)
                twins.append(await stack.enter_async_context(forking))
            yield twins

    @asynccontextmanager
    async def _forked(
        self, role: str, request: EvaluationRequest, home: Home, budget: Budget
    ) -> AsyncIterator[Forked]:
        """A child with a copy of the submission made for it: what an earlier child did to its own is void."""
        with budget.timed("queue"):
            zygote = await self._ready_zygote()
        async with self._confinement.source(home, trace.NAME, request.code) as source:
            spec = self._spec(role, request, home, source)
            try:
                async with forked(zygote, spec) as child:
                    yield child
                if child.left:
                    home.lost = True
                    _logger.error("%d processes of a submission could not be ended", child.left)
            finally:
                if not zygote.alive:
                    await finish(self._bury(zygote))

    async def _bury(self, zygote: Child) -> None:
        """Its children died with it; what they had left behind is ours."""
        await zygote.stop()
        await asyncio.to_thread(self._end_all)
        self._confinement.close()

    def _spec(self, role: str, request: EvaluationRequest, home: Home, source: str) -> dict[str, Any]:
        guarded = request.mode != "audit"
        plan = self._confinement.plan(home, source, self._ours(), device=role == "run", models=not guarded)
        return {
            "role": role,
            "scratch": home.scratch,
            "source": source,
            "device": self._config["device"],
            "guarded": guarded,
            "plan": plan.json(),
            "environment": self._environment(role),
        }

    def _environment(self, role: str) -> dict[str, str]:
        """What differs from the zygote's."""
        environment = {}
        if self._device is not None and self._device.capability:
            suffix = "a" if self._device.capability in ("9.0", "10.0") else ""
            environment["TORCH_CUDA_ARCH_LIST"] = self._device.capability + suffix
        if role == "build":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return environment

    def _ours(self) -> list[int]:
        """The processes that no candidate may touch."""
        children = [child.pid for child in (self._judge, self._zygote) if child is not None]
        return [os.getpid(), os.getppid(), *children]

    async def _ready_judge(self) -> Child:
        async with self._starting_judge:
            if self._judge is None or not self._judge.alive:
                if self._judge is not None:
                    await self._judge.stop()
                environment = trusted_environment(self._device_environment())
                device = "cuda:0" if self._config["device"] == "cuda" else "cpu"
                self._judge = await Child.start("judge", [device], environment, self._folder, START_S)
                self._device = Device.model_validate(self._judge.hello["device"]).model_copy(
                    update={"index": self._config["index"]}
                )
            return self._judge

    async def _ready_zygote(self) -> Child:
        async with self._starting_zygote:
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    await self._bury(self._zygote)
                extra = {**self._device_environment(), "OPENBLAS_NUM_THREADS": "1", "MAX_JOBS": "4"}
                if self._config["device"] == "cpu":
                    # Threads that spin while they wait make times on a shared host a matter of luck.
                    extra |= {"TRITON_INTERPRET": "1", "OMP_WAIT_POLICY": "PASSIVE"}
                environment = clean_environment({**extra, "HOME": self._folder})
                self._zygote = await Child.start("zygote", [], environment, self._folder, START_S)
                if fault := self._zygote.hello["fault"]:
                    await self._zygote.stop()
                    raise StartFailed(f"the zygote is not fit to fork: {fault}")
            return self._zygote

    def _device_environment(self) -> dict[str, str]:
        index = self._config["index"] if self._config["device"] == "cuda" else ""
        # Longer launch queues: networks of many small kernels fit in whole (see `laps`, `gate`).
        queues = {"CUDA_SCALE_LAUNCH_QUEUES": "4x"}
        return {"CUDA_VISIBLE_DEVICES": index, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **queues}


@dataclass(frozen=True)
class _Verdict:
    outcome: Outcome
    seeds_digest: str = ""
    peak_bytes: int | None = None


async def _settle(judge: Child, asking: asyncio.Future[dict[str, Any]]) -> None:
    """After a candidate was killed the judge notices at once; one that does not is replaced."""
    done, _ = await asyncio.wait({asking}, timeout=CANCEL_S)
    if not done:
        judge.kill()
        await asyncio.wait({asking}, timeout=CANCEL_S)
    if asking.done() and not asking.cancelled():
        asking.exception()


def _with_status(outcome: Outcome, child: Forked) -> Outcome:
    """A crash gets the signal or exit code that the zygote saw, and the end of the child's output.

    A zygote that can't tell has gone itself, and its children with it: that is no crash of the submission's.
    """
    if not isinstance(outcome, Crashed):
        return outcome
    if child.status is None:
        return Infrastructure(message="the process that forks candidates ended, and the candidate with it")
    if not child.ended and not outcome.message:
        return outcome.model_copy(update={"message": CUT})
    message = outcome.message or trace.clip(trace.shorten(child.output.text().strip()), 1000)
    if child.status < 0:
        return outcome.model_copy(update={"signal": _signal_name(-child.status), "message": message})
    return outcome.model_copy(update={"exit_code": child.status, "message": message})


def _signal_name(number: int) -> str:
    """Real-time signals but the first and the last have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def serve(pool: Stream, worker: Worker) -> None:
    """Answer a pool until it closes the socket; its requests run side by side."""
    running: dict[str, asyncio.Task[None]] = {}

    async def answer(request: EvaluationRequest, waited_s: float) -> None:
        try:
            evaluation = await worker.evaluate(request, waited_s)
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
    worker = Worker(config)
    try:
        device = await worker.start()
        await pool.send({"device": device.model_dump(), "sandbox": worker.sandbox})
        await serve(pool, worker)
    except StartFailed as error:
        final = isinstance(error, StartRefusedError)
        await pool.send({"failed": str(error), "final": final, "sandbox": worker.sandbox})
    finally:
        await worker.close()


def main() -> None:
    die_with_parent(int(sys.argv[2]))
    adopt_orphans()
    close_to_others()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run(int(sys.argv[1]), json.loads(sys.argv[3])))


if __name__ == "__main__":
    main()
