"""Timed calls: the one loop in which both the reference (in the judge) and the candidate are measured.

CUDA: events round each call on the current stream, after a flush that evicts the L2 cache and hides the
host's time to launch; the whole block is synchronized once. CPU: the monotonic clock round each call. The
outputs of every timed call are kept, so that the judge can verify what it timed. What a candidate's process
reports from here is a claim, which the judge bounds with its own clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

FLUSH_BYTES = 256 << 20


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
        flush: bool,
    ) -> list[float]:
        """Call `call(i)` for each i in `order`, handing its result to `keep(i, result)`; ms for each.

        One more call goes before, untimed: it finds memory, code and the host's caches as the others leave them.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            call(order[0])
            if self._device.type == "cuda":
                return self._device_laps(call, keep, order, flush)
            return self._host_laps(call, keep, order)
        finally:
            if collecting:
                gc.enable()

    def _host_laps(
        self, call: Callable[[int], Any], keep: Callable[[int, Any], None], order: Sequence[int]
    ) -> list[float]:
        laps = []
        for index in order:
            start = time.perf_counter_ns()
            result = call(index)
            laps.append((time.perf_counter_ns() - start) / 1e6)
            keep(index, result)
        return laps

    def _device_laps(
        self,
        call: Callable[[int], Any],
        keep: Callable[[int, Any], None],
        order: Sequence[int],
        flush: bool,
    ) -> list[float]:
        buffer = self._flush_buffer() if flush else None
        pairs = [(_event(), _event()) for _ in order]
        torch.cuda.synchronize(self._device)
        for index, (start, end) in zip(order, pairs, strict=True):
            if buffer is not None:
                buffer.zero_()
            start.record()
            result = call(index)
            end.record()
            keep(index, result)
            del result
        torch.cuda.synchronize(self._device)
        return [start.elapsed_time(end) for start, end in pairs]

    def _flush_buffer(self) -> torch.Tensor:
        if self._flush is None:
            cache = torch.cuda.get_device_properties(self._device).L2_cache_size
            self._flush = torch.empty(max(FLUSH_BYTES, 2 * cache), dtype=torch.uint8, device=self._device)
        return self._flush


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)
