"""One submission's way over a device: static checks, build, then trials and timing before the judge.

Checks and builds of several submissions run side by side; the lease is held by one at a time, from fork to
verdict. A submission's fault is an outcome; the death of judge or zygote leaves here as `FrameError`, one that
can't be started as `StartFailed`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from . import languages, trace
from .budget import Budget
from .checks import check
from .child import Child
from .confinement import Home
from .cores import allowed, builds
from .finish import finish
from .forked import Forked
from .frames import FrameError
from .lease import Lease, Turn
from .outcome import (
    BuildFailed,
    Crashed,
    Evaluation,
    EvaluationRequest,
    Infrastructure,
    Outcome,
    OutOfMemory,
    Raised,
    Rejected,
    TaskSource,
    TimedOut,
)
from .processes import Processes

JUDGE_MARGIN_S = 90.0
ENDING_S = 2.0
QUIET_S = 5.0
REHEARSAL_S = 30.0
SKETCHES = 512
CANCEL_S = 15.0
CUT = "The submission cut its process's link to the evaluator: leave descriptors alone that you did not open."
NOT_SET_UP = "the process that builds a submission could not be set up"
STAGE_LIMITS = {
    "compile": "build_timeout_s",
    "correctness": "correctness_timeout_s",
    "timing": "timing_timeout_s",
}
JUDGED_BY = (
    "trials",
    "atol",
    "rtol",
    "build_timeout_s",
    "correctness_timeout_s",
    "timing_timeout_s",
    "timing_budget_s",
    "roofline_reject",
    "checks",
    "precision",
    "profile",
    "peaks",
)


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    seeds_digest: str = ""
    peak_bytes: int | None = None


class Stages:
    """What a worker's submissions share: its processes, build slots and the lease. `config` is the worker's."""

    def __init__(self, config: dict[str, Any], processes: Processes) -> None:
        self._config = config
        self._processes = processes
        self._lease = Lease()
        self._sketches: dict[str, dict[str, Any]] = {}
        self._builds = asyncio.Semaphore(config["builds"] or builds(len(allowed())))

    async def run(self, request: EvaluationRequest, budget: Budget) -> Verdict:
        """Raises `FrameError` and `StartFailed`."""
        refused = await self._check(request, budget)
        if refused is not None:
            return Verdict(refused)
        async with self._processes.confinement.home("candidate-") as home:
            async with budget.turn(self._builds):
                failed = await self._build(request, home, budget)
                if failed is None:
                    failed = await self._rehearse(request, home, budget)
            if failed is not None:
                return Verdict(failed)
            async with self._lease.turn(budget) as turn:
                verdict = await self._run(request, home, budget, turn)
                if verdict.outcome.kind == "impossible_timing":
                    verdict = await self._run(request, home, budget, turn)
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
        await self._zygote_ready(request, budget)
        async with self._processes.fork("build", request, home) as child:
            limit_s = budget.limit(stage_s)
            try:
                with budget.timed("build"):
                    outcome = self._build_outcome(await child.reply(limit_s))
            except TimeoutError:
                end = TimedOut(stage="compile", seconds=limit_s, message="while importing the submission")
                outcome = budget.late(end, stage_s, limit_s)
            except FrameError:
                outcome = Crashed(stage="compile") if child.greeted else Infrastructure(message=NOT_SET_UP)
                await child.ends(ENDING_S)
        return _with_status(outcome, child) if outcome else None

    async def _zygote_ready(self, request: EvaluationRequest, budget: Budget) -> None:
        with budget.timed("queue"):
            await self._processes.zygote_for(request)

    async def _rehearse(self, request: EvaluationRequest, home: Home, budget: Budget) -> Outcome | None:
        """Compile Triton kernels while another submission has the device; tells those that can't be."""
        if not self._processes.facts or not languages.get(request.language).rehearsed or request.mode == "audit":
            return None
        with budget.timed("rehearsal"):
            sketch = await self._sketched(request.task)
            limit_s = min(REHEARSAL_S, budget.left_s)
            if not sketch or limit_s <= 0:
                return None
            facts = self._processes.facts
            async with self._processes.fork("rehearsal", request, home, sketch=sketch, facts=facts) as child:
                try:
                    reply = await child.reply(limit_s)
                except (FrameError, TimeoutError):
                    return None
            return self._build_outcome(reply) if reply.get("error") == "build" else None

    async def _sketched(self, task: TaskSource) -> dict[str, Any]:
        known = self._sketches.get(task.source)
        if known is None:
            async with self._processes.confinement.home("sketch-") as home:
                known = await self._processes.sketch(task, home)
            while len(self._sketches) >= SKETCHES:
                self._sketches.pop(next(iter(self._sketches)))
            self._sketches[task.source] = known
        return known

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

    async def _run(self, request: EvaluationRequest, home: Home, budget: Budget, turn: Turn) -> Verdict:
        """Candidate and judge together, on the device; the candidate's processes stand by until it is free.

        Those that end while standing by, for want of memory for one, are made again.
        """
        reply = None
        while reply is None:
            await self._zygote_ready(request, budget)
            stood_by = not turn.taken
            with ExitStack() as ending:
                async with (
                    turn.making(),
                    self._processes.twins(request) as twins,
                    self._processes.fork("run", request, home) as child,
                    _watched([child, *twins], turn) as children,
                ):
                    await turn.take()
                    if stood_by and not all(each.running for each in children):
                        continue
                    reply = await self._judged(request, children, budget, turn)
                    budget.durations.update(reply["durations"])
                    ending.enter_context(budget.timed("ending"))
        read = Evaluation.model_validate({"outcome": reply["outcome"], "device": self._processes.device})
        outcome = read.outcome
        if isinstance(outcome, TimedOut):
            own_s = budget.durations["build"] + outcome.seconds
            outcome = budget.late(outcome, self._config[STAGE_LIMITS[outcome.stage]], own_s)
        return Verdict(_with_status(outcome, child), reply["seeds_digest"], reply["peak_bytes"])

    async def _judged(
        self, request: EvaluationRequest, children: Sequence[Forked], budget: Budget, turn: Turn
    ) -> dict[str, Any]:
        """The judge's reply; the first of `children` is the candidate."""
        with budget.timed("queue"):
            judge = await self._processes.judge()
        asking = asyncio.create_task(self._ask_judge(judge, request, children, budget, turn))
        try:
            reply = await asyncio.shield(asking)
        except asyncio.CancelledError:
            children[0].kill()
            await finish(_settle(judge, asking))
            raise
        if reply["outcome"]["kind"] == "crashed":
            await children[0].ends(ENDING_S)
        return reply

    async def _ask_judge(
        self, judge: Child, request: EvaluationRequest, children: Sequence[Forked], budget: Budget, turn: Turn
    ) -> dict[str, Any]:
        async def leave() -> None:
            await turn.quiet(QUIET_S)
            with suppress(FrameError):  # a judge that is gone waits no more
                await judge.stream.send({"quiet": True})

        def hear(message: dict[str, Any]) -> None:
            if message.get("stage") == "quiet":
                leaving.append(asyncio.create_task(leave()))
            budget.enter(str(message.get("stage", "")))

        leaving: list[asyncio.Task[None]] = []

        message: dict[str, Any] = {"task": request.task.model_dump(), "language": request.language}
        message |= {key: self._config[key] for key in JUDGED_BY}
        message |= {limit: budget.limit(self._config[limit]) for limit in STAGE_LIMITS.values()}
        message["left_s"] = budget.left_s
        message["guarded"] = guarded = request.mode != "audit"
        message["record"] = guarded and self._processes.confinement.report.active("provenance")
        bound_s = sum(self._config[limit] for limit in STAGE_LIMITS.values()) + JUDGE_MARGIN_S
        if self._config["baseline"] == "compile":
            bound_s += self._config["build_timeout_s"] + self._config["timing_timeout_s"]
        fds = [fd for child in children for fd in (child.link.fileno(), child.handle)]
        try:
            return await judge.ask(message, fds, bound_s, last="outcome", hear=hear)
        finally:
            await asyncio.gather(*leaving)


@asynccontextmanager
async def _watched(children: Sequence[Forked], turn: Turn) -> AsyncIterator[Sequence[Forked]]:
    """The turn is told when each has its context, or is gone."""
    watch = asyncio.gather(*(child.speaks() for child in children))
    watch.add_done_callback(lambda done: turn.ready())
    try:
        yield children
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


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
