"""Timed calls: the one loop in which both a candidate and the reference, in processes of a kind, are measured.

CUDA: events round each call, the end event after all streams of the context; before the start event the device
is held busy for `hold` cycles and a flush reads and writes more than the L2 cache holds. So the caches are cold
and the host's time to launch, up to that of hold and flush, is not counted. CPU: the monotonic clock round each
call. The outputs of every timed call are kept, so that the judge can verify what it timed. What a candidate's
process reports from here is a claim, which the judge bounds with its own clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from . import driver

FLUSH_BYTES = 256 << 20


@dataclass(frozen=True)
class Laps:
    """For each call, in ms: its time on the device (on a CPU, at all), and the host's time to launch it."""

    device: list[float]
    host: list[float]


class Stopwatch:
    """Measures blocks of calls on one device; owns the flush buffer."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flush: torch.Tensor | None = None

    def laps(
        self,
        call: Callable[[int], Any],
        keep: Callable[[int, Any], None],
        order: Sequence[int],
        flush: bool = False,
        hold: int = 0,
    ) -> Laps:
        """Call `call(i)` for each i in `order`, handing its result to `keep(i, result)`.

        `hold` is in cycles of the multiprocessors' clock.
        """
        with _collected_later():
            if self._device.type == "cuda":
                return self._device_laps(call, keep, order, flush, hold)
            return self._host_laps(call, keep, order)

    def _host_laps(
        self, call: Callable[[int], Any], keep: Callable[[int, Any], None], order: Sequence[int]
    ) -> Laps:
        laps = []
        for index in order:
            start = time.perf_counter_ns()
            result = call(index)
            laps.append((time.perf_counter_ns() - start) / 1e6)
            keep(index, result)
        return Laps(laps, list(laps))

    def _device_laps(
        self,
        call: Callable[[int], Any],
        keep: Callable[[int, Any], None],
        order: Sequence[int],
        flush: bool,
        hold: int,
    ) -> Laps:
        buffer = self._flush_buffer() if flush else None
        laps = [(_event(), _event(), _event()) for _ in order]
        host = []
        for index, (start, joined, end) in zip(order, laps, strict=True):
            torch.cuda.synchronize(self._device)  # what keeps the last result would hide this call's launch
            if hold:
                torch.cuda._sleep(hold)
            if buffer is not None:
                buffer.add_(1)
            start.record()
            begun = time.perf_counter_ns()
            result = call(index)
            host.append((time.perf_counter_ns() - begun) / 1e6)
            driver.join(joined, self._device)
            end.record()
            keep(index, result)
            del result
        torch.cuda.synchronize(self._device)
        return Laps([start.elapsed_time(end) for start, _, end in laps], host)

    def wash(self) -> None:
        """A flush that is a fill, where what runs is recorded."""
        self._flush_buffer().zero_()

    def _flush_buffer(self) -> torch.Tensor:
        if self._flush is None:
            cache = torch.cuda.get_device_properties(self._device).L2_cache_size
            count = max(FLUSH_BYTES, 2 * cache) // 4
            self._flush = torch.zeros(count, dtype=torch.int32, device=self._device)
        return self._flush


def _event() -> torch.cuda.Event:
    """An event that exists: torch makes one at its first record, which costs the host time."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def cycles_per_ms(device: torch.device) -> float:
    """How long the device's hold of one cycle is, measured."""
    cycles = 1_000_000
    start, end = _event(), _event()
    for _ in range(2):
        torch.cuda.synchronize(device)
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
    torch.cuda.synchronize(device)
    elapsed: float = start.elapsed_time(end)
    return cycles / elapsed


@contextmanager
def _collected_later() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
