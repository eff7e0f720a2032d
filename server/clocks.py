"""The device's clock and whether it is held back, as NVML tells them; nothing is ever set.

Blocks that ran at another clock than the rest of their side are left out of a measurement (see `statistics`).
Where NVML has no answer (no such library, a slice of a device, a CPU) readings are None and nothing is left out.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from .statistics import Reading

RAMPED = 0.95


class Clocks:
    """Reads one device, at about 10 us a reading."""

    def __init__(self, device: torch.device) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._top_mhz = 0
        if device.type == "cuda":
            self._open(f"GPU-{torch.cuda.get_device_properties(device).uuid}")

    def _open(self, uuid: str) -> None:
        import pynvml

        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._top_mhz = _top_mhz(uuid)
        except pynvml.NVMLError:
            return
        self._nvml = pynvml

    def read(self) -> Reading | None:
        """To be called right after a block: clocks take milliseconds to follow a change of load."""
        if self._nvml is None:
            return None
        nvml = self._nvml
        slowdowns = (
            nvml.nvmlClocksThrottleReasonHwSlowdown
            | nvml.nvmlClocksThrottleReasonSwThermalSlowdown
            | nvml.nvmlClocksThrottleReasonHwThermalSlowdown
            | nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
        )
        try:
            mhz = nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM)
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        except nvml.NVMLError:
            return None
        return Reading(mhz, bool(reasons & slowdowns))

    def ramped(self) -> bool:
        """Is the clock as high as it gets? A device that is held back, or can't be asked, never says so."""
        reading = self.read()
        return reading is not None and reading.mhz >= RAMPED * self._top_mhz


@cache
def _top_mhz(uuid: str) -> int:
    """Asked for once: it takes 40 ms. NVML is to be up; raises its error."""
    import pynvml

    return int(pynvml.nvmlDeviceGetMaxClockInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid), pynvml.NVML_CLOCK_SM))
