"""The processes of one device: judge, zygote, and what the zygote forks for a submission.

Judge and zygote are started on demand and anew after their death; what a zygote leaves behind is ended before the
next one starts. A fork lives as long as its context. Knows nothing of stages or verdicts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from . import languages, trace
from .child import Child, StartFailed
from .confinement import Confinement, Home
from .cores import for_compilers
from .finish import finish
from .forked import Forked, forked
from .frames import FrameError
from .outcome import Device, EvaluationRequest, TaskSource
from .sandbox import clean_environment, trusted_environment
from .strays import end_strays

START_S = 120.0
SKETCH_S = 20.0

_logger = logging.getLogger(__name__)


class Processes:
    """`config` is the worker's."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._folder: str = config["folder"]
        self._starting_judge = asyncio.Lock()
        self._starting_zygote = asyncio.Lock()
        self._preparing = asyncio.Lock()
        self._prepared: set[tuple[int, str]] = set()
        self._judge: Child | None = None
        self._zygote: Child | None = None
        self._device: Device | None = None
        self.confinement = Confinement(config)

    @property
    def device(self) -> Device:
        """Known once a judge has been ready."""
        assert self._device is not None
        return self._device

    async def start(self) -> None:
        """Bring judge and zygote up and find out what confines candidates; raises `StartFailed`."""
        _, zygote = await asyncio.gather(self.judge(), self.zygote())
        await self.confinement.settle(zygote, self._ours(), self._environment("run"))

    async def close(self) -> None:
        for child in (self._judge, self._zygote):
            if child is not None:
                await child.stop()
        await asyncio.to_thread(self._end_all)
        self.confinement.close()

    async def judge(self) -> Child:
        """The one that is up, or a new one; raises `StartFailed`."""
        async with self._starting_judge:
            if self._judge is None or not self._judge.alive:
                if self._judge is not None:
                    await self._judge.stop()
                environment = trusted_environment(self._device_environment())
                device = "cuda:0" if self._config["device"] == "cuda" else "cpu"
                known = [] if self._judge is None else [str(self._judge.hello["pace_us"])]
                self._judge = await Child.start("judge", [device, *known], environment, self._folder, START_S)
                self._device = Device.model_validate(self._judge.hello["device"]).model_copy(
                    update={"index": self._config["index"]}
                )
            return self._judge

    async def zygote(self) -> Child:
        """The one that is up, or a new one; raises `StartFailed`."""
        async with self._starting_zygote:
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    await self._bury(self._zygote)
                extra = {**self._device_environment(), "OPENBLAS_NUM_THREADS": "1", "MAX_JOBS": "4"}
                if self._config["device"] == "cpu":
                    extra |= {"TRITON_INTERPRET": "1"}
                environment = clean_environment({**extra, "HOME": self._folder})
                self._zygote = await Child.start("zygote", [], environment, self._folder, START_S)
                if fault := self._zygote.hello["fault"]:
                    await self._zygote.stop()
                    raise StartFailed(f"the zygote is not fit to fork: {fault}")
            return self._zygote

    @asynccontextmanager
    async def fork(self, role: str, request: EvaluationRequest, home: Home, **more: Any) -> AsyncIterator[Forked]:
        """A child with a copy of the submission made for it: what an earlier child did to its own is void.

        `more` is for the role's own `spec`. Raises `FrameError` if the zygote is gone.
        """
        zygote = await self.zygote_for(request)
        async with self.confinement.source(home, trace.NAME, request.code) as source:
            spec = self._spec(role, request, home, source) | more
            try:
                async with forked(zygote, spec) as child:
                    yield child
                if child.left:
                    home.lost = True
                    _logger.error("%d processes of a submission could not be ended", child.left)
            finally:
                if not zygote.alive:
                    await finish(self._bury(zygote))

    async def zygote_for(self, request: EvaluationRequest) -> Child:
        """The zygote, once it has imported what the submission's language needs: when one is first asked for.

        Raises `StartFailed`, and `FrameError` if the zygote is gone.
        """
        zygote = await self.zygote()
        if runtime := _runtime(request):
            await self._prepare(zygote, runtime)
        return zygote

    async def _prepare(self, zygote: Child, runtime: str) -> None:
        async with self._preparing:
            if (zygote.pid, runtime) in self._prepared:
                return
            try:
                reply = await zygote.ask({"op": "prepare", "runtime": runtime}, timeout_s=START_S)
            except FrameError:
                await self._bury(zygote)
                raise
            if not reply["fit"]:
                await self._bury(zygote)
            if reply["fault"]:
                raise StartFailed(f"the language can't be run here: {reply['fault']}")
            self._prepared = {known for known in self._prepared if known[0] == zygote.pid} | {
                (zygote.pid, runtime)
            }

    @property
    def facts(self) -> dict[str, int]:
        """What compiling for the device depends on; empty on a CPU (see `hardware.facts`)."""
        return self._judge.hello["facts"] if self._judge is not None else {}

    async def sketch(self, task: TaskSource, home: Home) -> dict[str, Any]:
        """A task's arguments without their contents (see `sketch`); empty where there are none."""
        request = EvaluationRequest(
            id="", task=task, language="triton", code=task.source, budget_s=SKETCH_S, mode="audit"
        )
        async with self.fork("sketch", request, home) as child:
            try:
                return await child.reply(SKETCH_S)
            except (FrameError, TimeoutError):
                return {}

    @asynccontextmanager
    async def twins(self, request: EvaluationRequest) -> AsyncIterator[list[Forked]]:
        """The reference in processes like the candidate's, to be timed beside it; none where nothing is timed.

        The first is eager, the second, if asked for, compiled.
        """
        codes = [request.task.as_submission]
        if self._config["baseline"] == "compile":
            codes.append(request.task.as_compiled())
        if self._config["device"] == "cpu" and languages.get(request.language).interpreted:
            codes = []
        async with AsyncExitStack() as stack:
            twins = []
            for code in codes:
                reference = request.model_copy(update={"code": code, "mode": "audit"})
                home = await stack.enter_async_context(self.confinement.home("twin-"))
                twins.append(await stack.enter_async_context(self.fork("run", reference, home, twin=True)))
            yield twins

    async def _bury(self, zygote: Child) -> None:
        """Its children died with it; what they had left behind is ours."""
        await zygote.stop()
        await asyncio.to_thread(self._end_all)
        self.confinement.close()

    def _end_all(self) -> None:
        end_strays()
        self.confinement.end_everyone()

    def _spec(self, role: str, request: EvaluationRequest, home: Home, source: str) -> dict[str, Any]:
        guarded = request.mode != "audit"
        plan = self.confinement.plan(home, source, self._ours(), device=role == "run", models=not guarded)
        return {
            "role": role,
            "scratch": home.scratch,
            "source": source,
            "device": self._config["device"],
            "guarded": guarded,
            "runtime": _runtime(request),
            "precision": self._config["precision"],
            "twin": False,
            "cores": [] if role == "run" else for_compilers(self._config["cores"]),
            "plan": plan.json(),
            "environment": self._environment(role),
        }

    def _environment(self, role: str) -> dict[str, str]:
        """What differs from the zygote's."""
        # NVTX, which CUB brings in, looks for tools by dlopen: linked in, that would pass for an escape.
        environment = {"NVCC_APPEND_FLAGS": "-DNVTX_DISABLE"}
        if self._device is not None and self._device.capability:
            suffix = "a" if self._device.capability in ("9.0", "10.0") else ""
            environment["TORCH_CUDA_ARCH_LIST"] = self._device.capability + suffix
        if role != "run":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return environment

    def _device_environment(self) -> dict[str, str]:
        if self._config["device"] == "cpu":
            # Threads that spin while they wait make times on a shared host a matter of luck.
            return {"CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "PASSIVE"}
        # Longer launch queues: networks of many small kernels fit in whole (see `laps`, `gate`).
        queues = {"CUDA_SCALE_LAUNCH_QUEUES": "4x"}
        return {"CUDA_VISIBLE_DEVICES": self._config["index"], "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **queues}

    def _ours(self) -> list[int]:
        """The processes that no candidate may touch."""
        children = [child.pid for child in (self._judge, self._zygote) if child is not None]
        return [os.getpid(), os.getppid(), *children]


def _runtime(request: EvaluationRequest) -> str:
    """A reference is in no language of a submission's."""
    return "" if request.mode == "audit" else languages.get(request.language).runtime
