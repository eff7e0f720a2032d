"""What the device does during some calls, by name and time: CUPTI's record, through PyTorch's profiler (Kineto).

Lives in a process that runs a submission, for one block of its calls. Once CUPTI is on, it slows every launch down
for the life of the process, so this is the last thing that a process is asked for. The profiler's entry points are
bound here before a submission is read, and settings that it may have left in the environment are dropped. A kernel
of ours at either end is the mark that the record is whole; the first one lasts until the clocks, which sink while
CUPTI starts, are up again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch._C._autograd import DeviceType, _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig

from .provenance import NAME_CAP, NAMES_CAP, is_move

MARK = "spin_kernel("
_SETTINGS = ("KINETO", "CUPTI", "TEARDOWN_CUPTI", "DISABLE_CUPTI", "TORCH_PROFILER")
_MARKS = 2
RAMP = 100_000_000  # cycles: some 50 ms
_WAITS = re.compile(r"^(?:Context|Stream|Event|Device) (?:Sync|Wait)")


class Recorder:
    """A context; afterwards `report` tells what ran inside. To be used once in a process."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[Any] = []

    def __enter__(self) -> Recorder:
        for name in [name for name in os.environ if name.startswith(_SETTINGS)]:
            del os.environ[name]
        os.environ["TEARDOWN_CUPTI"] = "0"  # it has crashed where CUDA graphs are used
        torch.cuda.synchronize(self._device)
        _prepare_profiler(_config(), {ProfilerActivity.CUDA})
        _enable_profiler(_config(), {ProfilerActivity.CUDA})
        self._mark(RAMP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._mark(1)
        finally:
            result = _disable_profiler()
        if kind is None:
            self._events = [event for event in result.events() if _is_activity(event)]

    def _mark(self, cycles: int) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda._sleep(cycles)
        torch.cuda.synchronize(self._device)

    def names(self) -> list[str]:
        return sorted({_name(event) for event in self._events})

    def report(self, calls: int, origin: Callable[[str], str]) -> dict[str, Any]:
        """As `provenance.Record`; `origin` tells whose a kernel is."""
        return report(self._events, calls, origin)


def report(events: Sequence[Any], calls: int, origin: Callable[[str], str]) -> dict[str, Any]:
    """As `provenance.Record`, of Kineto's events."""
    marks = [event for event in events if MARK in _name(event)]
    work = [event for event in events if MARK not in _name(event)]
    work += marks[_MARKS:]  # the submission's own use of it is work as any other
    kernels: dict[str, tuple[int, float]] = {}
    for event in work:
        launches, ms = kernels.get(_name(event), (0, 0.0))
        kernels[_name(event)] = launches + 1, ms + event.duration_ns() / 1e6
    ordered = sorted(kernels.items(), key=lambda item: -item[1][1])
    return {
        "calls": calls,
        "complete": len(marks) >= _MARKS,
        "work_ms": _busy_ms(event for event in work if not is_move(_name(event))),
        "busy_ms": _busy_ms(work),
        "rest_ms": sum(ms for _, (_, ms) in ordered[NAMES_CAP:]),
        "kernels": [
            {"name": name[:NAME_CAP], "origin": origin(name), "launches": launches, "ms": ms}
            for name, (launches, ms) in ordered[:NAMES_CAP]
        ],
    }


def supported() -> bool:
    return ProfilerActivity.CUDA in torch._C._autograd._supported_activities()


def _config() -> ProfilerConfig:
    return ProfilerConfig(
        ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig(), "kernels"
    )


def _is_activity(event: Any) -> bool:
    """Work of the device; neither waits nor the ranges that `record_function` draws on its timeline."""
    annotation = getattr(event, "is_user_annotation", None)
    if event.device_type() != DeviceType.CUDA or (annotation is not None and annotation()):
        return False
    return _WAITS.match(event.name()) is None


def _name(event: Any) -> str:
    """Demangled: Kineto leaves very long names as they are."""
    name: str = event.name()
    return torch._C._demangle(name) if name.startswith("_Z") else name


def _busy_ms(events: Iterable[Any]) -> float:
    """The length of the union of their spans."""
    total, reached = 0, 0
    for start, end in sorted((event.start_ns(), event.end_ns()) for event in events):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total / 1e6
