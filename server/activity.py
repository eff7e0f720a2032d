"""What the device does during some calls, by name and time: CUPTI's record, through PyTorch's profiler (Kineto).

Lives in a process that runs a submission, for one block of its calls. Once CUPTI is on, it slows every launch down
for the life of the process, so this is the last thing that a process is asked for. The profiler's entry points are
bound here before a submission is read, and settings that it may have left in the environment are dropped. A kernel
of ours at either end is the mark that the record is whole; the first one lasts until the clocks, which sink while
CUPTI starts, are up again. For a profile each call has a mark on either side, too, as what is done between calls
is not the submission's; how a kernel was launched stands in the trace that Kineto writes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch._C._autograd import DeviceType, _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig

from . import profile
from .provenance import NAME_CAP, NAMES_CAP, is_move

MARK = "spin_kernel("
_SETTINGS = ("KINETO", "CUPTI", "TEARDOWN_CUPTI", "DISABLE_CUPTI", "TORCH_PROFILER")
_MARKS = 2
RAMP = 100_000_000  # cycles: some 50 ms
_WAITS = re.compile(r"^(?:Context|Stream|Event|Device) (?:Sync|Wait)")


class Recorder:
    """A context; afterwards `report` tells what ran inside. To be used once in a process."""

    def __init__(self, device: torch.device, profiled: bool = False) -> None:
        self._device = device
        self._profiled = profiled
        self._events: list[Any] = []
        self._calls = 0
        self._launches: dict[str, dict[str, Any]] = {}

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
            if self._profiled:
                self._launches = launches(_trace(result))

    @contextmanager
    def call(self) -> Iterator[None]:
        """Round one call; the marks are queued like its own work, and nothing is waited for."""
        if not self._profiled:
            yield
            return
        self._calls += 1
        torch.cuda._sleep(1)
        yield
        torch.cuda._sleep(1)

    def _mark(self, cycles: int) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda._sleep(cycles)
        torch.cuda.synchronize(self._device)

    def names(self) -> list[str]:
        return sorted({_name(event) for event in self._events})

    def report(
        self, calls: int, origin: Callable[[str], str], spills: Mapping[tuple[str, int], int] | None = None
    ) -> dict[str, Any]:
        """As `provenance.Record`; `origin` tells whose a kernel is, `spills` what `Origins` has of them."""
        found = report(self._events, calls, origin, 2 * self._calls)
        if self._profiled:
            found["inside"] = inside(self._events, self._calls, origin, spilled(self._launches, spills or {}))
        return found


def report(events: Sequence[Any], calls: int, origin: Callable[[str], str], more: int = 0) -> dict[str, Any]:
    """As `provenance.Record`, of Kineto's events; `more`: marks of ours beside those at either end."""
    marks = [event for event in events if MARK in _name(event)]
    work = [event for event in events if MARK not in _name(event)]
    work += marks[_MARKS + more :]  # the submission's own use of it is work as any other
    ordered = _summed(work)
    return {
        "calls": calls,
        "complete": len(marks) >= _MARKS + more,
        "work_ms": _busy_ms(event for event in work if not is_move(_name(event))),
        "busy_ms": _busy_ms(work),
        "rest_ms": sum(ms for _, (_, ms) in ordered[NAMES_CAP:]),
        "kernels": [
            {"name": name[:NAME_CAP], "origin": origin(name), "launches": launches, "ms": ms}
            for name, (launches, ms) in ordered[:NAMES_CAP]
        ],
    }


def inside(
    events: Sequence[Any], calls: int, origin: Callable[[str], str], shapes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """As `profile.Inside`: what began between the marks of a call; None where the marks are not ours alone."""
    marks = sorted((event for event in events if MARK in _name(event)), key=lambda event: event.start_ns())
    if len(marks) != _MARKS + 2 * calls:
        return None
    bounds = marks[1:-1]
    spans = [(first.end_ns(), last.start_ns()) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
    within = [
        event
        for event in events
        if MARK not in _name(event) and any(start <= event.start_ns() < end for start, end in spans)
    ]
    ordered = _summed(within)
    rest = ordered[profile.TOLD :]
    return {
        "busy_ms": _busy_ms(within),
        "others": sum(count for _, (count, _) in rest),
        "others_ms": sum(ms for _, (_, ms) in rest),
        "kernels": [
            {
                "name": name[: profile.NAME_CAP],
                "origin": origin(name),
                "launches": count,
                "ms": ms,
                **shapes.get(name, {}),
            }
            for name, (count, ms) in ordered[: profile.TOLD]
        ],
    }


def launches(trace: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kernel, how its longest launch was made; of the events of a Kineto trace."""
    longest: dict[str, tuple[float, dict[str, Any]]] = {}
    for event in trace:
        if event.get("cat") != "kernel":
            continue
        name, took = _demangled(str(event.get("name"))), float(event.get("dur", 0.0))
        shape = _shape(event.get("args", {}))
        if shape and took >= longest.get(name, (0.0, {}))[0]:
            longest[name] = took, shape
    return {name: shape for name, (_, shape) in longest.items()}


def spilled(
    shapes: Mapping[str, Mapping[str, Any]], spills: Mapping[tuple[str, int], int]
) -> dict[str, dict[str, Any]]:
    """With the registers that a kernel of this many spills, where that is known."""
    keys = {name: (name, shape.get("registers", -1)) for name, shape in shapes.items()}
    return {
        name: {**shape, **({"spills": spills[keys[name]]} if keys[name] in spills else {})}
        for name, shape in shapes.items()
    }


def _shape(told: Mapping[str, Any]) -> dict[str, Any]:
    """Under our names; empty where the trace does not tell all of it."""
    if not all(isinstance(told.get(key), list) and len(told[key]) == 3 for key in ("grid", "block")):
        return {}
    shape: dict[str, Any] = {"grid": told["grid"], "block": told["block"]}
    for key, theirs in (("registers", "registers per thread"), ("shared_bytes", "shared memory")):
        if isinstance(told.get(theirs), int):
            shape[key] = told[theirs]
    occupancy = told.get("est. achieved occupancy %")
    if isinstance(occupancy, (int, float)):
        shape["occupancy"] = min(max(occupancy / 100, 0.0), 1.0)
    return shape


def _trace(result: Any) -> list[dict[str, Any]]:
    """The events of the trace as Kineto writes it to a file, the only place where all versions tell a launch.

    Empty where that fails, which is no fault of the submission's.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            result.save(path)
            with open(path, encoding="utf-8", errors="replace") as file:
                events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    except (OSError, RuntimeError, ValueError, KeyError):
        return []
    return events


def _summed(events: Iterable[Any]) -> list[tuple[str, tuple[int, float]]]:
    """By name, launches and ms; what took longest comes first."""
    found: dict[str, tuple[int, float]] = {}
    for event in events:
        count, ms = found.get(_name(event), (0, 0.0))
        found[_name(event)] = count + 1, ms + event.duration_ns() / 1e6
    return sorted(found.items(), key=lambda item: -item[1][1])


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
    return _demangled(event.name())


def _demangled(name: str) -> str:
    return torch._C._demangle(name) if name.startswith("_Z") else name


def _busy_ms(events: Iterable[Any]) -> float:
    """The length of the union of their spans."""
    total, reached = 0, 0
    for start, end in sorted((event.start_ns(), event.end_ns()) for event in events):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total / 1e6
