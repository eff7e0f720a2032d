"""`KernelEnvironment`: the same episodes as openenv's `Environment`, for its HTTP routes and web page.

The routes create one instance for each call, so construction does no work: everything is in the shared
`Backend`. Sessions, queueing and resumption are the WebSocket's; an instance that a route steps without a
reset begins a one-off episode from the options beside the action. Requests over these routes at one time
are capped at `max_sessions`, like sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from kernel_env import __version__
from kernel_env.models import KernelAction, KernelObservation, KernelState

from .backend import Backend
from .episode import Episode, fresh_state
from .outcome import Device
from .problem import problem_text
from .protocol import Refusal, check_keys, echo, presentable
from .requests import RESET_KEYS, ResetRequest, StepRequest
from .tasks import SPLITS, SplitError, Task

T = TypeVar("T")

# openenv names three types of split; ours are lists of ids.
_SPLIT_TYPES = {"train": "train", "eval": "validation"}


class KernelEnvironment(Environment[KernelAction, KernelObservation, KernelState]):
    """One episode at a time; any number of instances at once. All methods raise `Refusal`.

    The synchronous methods are for threads beside the server's event loop.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend
        self._episode: Episode | None = None

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> KernelObservation:
        """Begin an episode; `options` are task_id, split, language."""
        request = ResetRequest.parse({"seed": seed, "episode_id": episode_id, **options})
        self._episode = await Episode.begin(self._backend, request)
        return self._episode.opening()

    async def step_async(
        self, action: KernelAction, timeout_s: float | None = None, **options: Any
    ) -> KernelObservation:
        """Evaluate a submission. Without a reset before, `options` are those of the reset."""
        check_keys(options, (*RESET_KEYS, "request_id"), "step")
        metadata = {
            **action.metadata,
            "request_id": action.metadata.get("request_id", options.pop("request_id", None)),
        }
        data = {"code": action.code, "metadata": metadata}
        request = StepRequest.parse(data, self._backend.settings.max_code_bytes)
        with self._backend.visit():
            return await (await self._chosen(options)).submit(request, timeout_s)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> KernelObservation:
        return self._wait(self.reset_async(seed=seed, episode_id=episode_id, **options))

    def step(self, action: KernelAction, timeout_s: float | None = None, **options: Any) -> KernelObservation:
        return self._wait(self.step_async(action, timeout_s=timeout_s, **options))

    @property
    def state(self) -> KernelState:
        return self._episode.state if self._episode else fresh_state(self._backend)

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="kernel_env",
            description="Trains agents to write fast, correct GPU kernels for KernelBench tasks.",
            version=__version__,
        )

    # The Task API: what a trainer builds its data set from.

    def list_splits(self) -> list[dict[str, str]]:
        return [{"name": name, "type": _SPLIT_TYPES[name]} for name in SPLITS]

    def num_tasks(self, split: str) -> int:
        return len(self._ids(split))

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Every usable task of a split, with the prompt of the default language; then those that are unavailable.

        The latter have no index, and do not count in `num_tasks`: who goes by index meets usable tasks alone.
        """
        usable = await self.get_task_range(split)
        device = await self._backend.device()
        lacking = [task for task in self._backend.tasks.all() if task.missing and task.split == split]
        return usable + [self._described(task, None, device) for task in lacking]

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Raises IndexError outside 0 ... num_tasks - 1."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(index)
        return (await self.get_task_range(split, index, index + 1))[0]

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks `start` to `stop` as in a slice."""
        ids = self._ids(split)
        chosen = range(len(ids))[start:stop]
        device = await self._backend.device()
        return [self._described(self._backend.tasks.get(ids[index]), index, device) for index in chosen]

    def _described(self, task: Task, index: int | None, device: Device) -> dict[str, Any]:
        language = ResetRequest().language
        return {
            "task_id": task.id,
            "index": index,
            "split": task.split,
            "level": task.level,
            "name": task.name,
            "hash": task.hash,
            "language": language,
            "available": task.missing is None,
            "missing": presentable(task.missing or ""),
            "prompt": problem_text(task, language, self._backend.settings, device),
        }

    def _ids(self, split: str) -> tuple[str, ...]:
        try:
            return self._backend.tasks.ids(split)
        except SplitError as error:
            raise Refusal("VALIDATION_ERROR", str(error)) from error

    async def _chosen(self, options: dict[str, Any]) -> Episode:
        if self._episode is None and options:
            self._episode = await Episode.begin(self._backend, ResetRequest.parse(options))
        elif self._episode is None:
            raise Refusal(
                "NOT_RESET",
                "no episode: over HTTP each call stands alone, so name task_id or seed beside the action, or play"
                " episodes over the WebSocket /ws",
            )
        elif options:
            names = ", ".join(echo(name) for name in options)
            raise Refusal("VALIDATION_ERROR", f"{names}: only a reset takes these once an episode runs")
        return self._episode

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the server's loop from another thread; bounded by the bounds of `work` itself."""
        loop = self._backend.loop
        if loop is None or not loop.is_running():
            work.close()
            raise RuntimeError("the server's event loop does not run: use reset_async and step_async")
        return asyncio.run_coroutine_threadsafe(work, loop).result()
