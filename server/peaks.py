"""Peaks of GPUs: dense, without structured sparsity, at the official boost clock; TFLOP/s, and GB/s of memory.

From datasheets, by the device's full CUDA name, so that no relative of other clocks or sizes (NVL, D, Laptop,
a MIG slice, a virtual GPU) passes for its namesake; `KERNEL_ENV_PEAKS` goes before them. Boost clocks above the
official one can pass a compute peak by up to 8 %. No torch here: the server reads this too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Peak:
    """TFLOP/s of TF32 (fp32 where there is none) and of 16-bit tensor cores with fp32 accumulation; GB/s."""

    tf32: float
    half: float
    bandwidth: float


FIELDS = tuple(field.name for field in fields(Peak))

_H100 = Peak(494.7, 989.4, 3352.0)  # NVIDIA H100 datasheet, SXM5 (sparse figures halved)
_A100_40 = Peak(156.0, 312.0, 1555.0)  # NVIDIA A100 datasheet
_A100_80 = Peak(156.0, 312.0, 2039.0)  # NVIDIA A100 datasheet
PEAKS = {
    "H100 80GB HBM3": _H100,
    "H100 PCIe": Peak(378.0, 756.0, 2039.0),  # NVIDIA H100 datasheet (sparse figures halved)
    "H200": Peak(494.7, 989.4, 4800.0),  # NVIDIA H200 datasheet (sparse figures halved)
    "A100-SXM4-40GB": _A100_40,
    "A100-PCIE-40GB": _A100_40,
    "A100-SXM4-80GB": _A100_80,
    "A100-SXM-80GB": _A100_80,  # the same part under older drivers
    "A100 80GB PCIe": Peak(156.0, 312.0, 1935.0),  # NVIDIA A100 datasheet
    "L40S": Peak(183.0, 362.0, 864.0),  # NVIDIA L40S datasheet (first of each pair)
    "L4": Peak(60.0, 121.0, 300.0),  # NVIDIA L4 datasheet (sparse figures halved)
    "B200": Peak(1125.0, 2250.0, 8000.0),  # NVIDIA HGX B200 datasheet (system / 8)
    "RTX 4090": Peak(82.6, 165.2, 1008.0),  # NVIDIA Ada architecture whitepaper, appendix A
    "RTX 5090": Peak(104.8, 209.5, 1792.0),  # NVIDIA RTX Blackwell whitepaper, appendix A
    "A10G": Peak(35.0, 70.0, 600.0),  # NVIDIA A10G product brief
    "T4": Peak(8.1, 65.0, 300.0),  # NVIDIA T4 datasheet; no TF32, so fp32
}
_BRANDS = re.compile(r"(NVIDIA |Tesla |GeForce )*")


def peak(device_name: str) -> Peak | None:
    """The peaks of a device by its CUDA name, or None when they are not known."""
    return PEAKS.get(_BRANDS.sub("", device_name, count=1))


def known(device_name: str, supplied: Mapping[str, float] | None) -> Peak | None:
    """What was supplied for this server's devices, else what the name says."""
    return peak(device_name) if supplied is None else Peak(**supplied)


def supply(peaks: Peak | None) -> dict[str, float] | None:
    """The supplied peaks as JSON, the inverse of what `known` takes."""
    return None if peaks is None else asdict(peaks)


def unknown(device_name: str) -> str:
    """Why there is no roofline, and what to do, for whoever runs the server."""
    return (
        f"the peak rates of {device_name} are not known, so there is no roofline:"
        " KERNEL_ENV_PEAKS=tf32=...,half=...,bandwidth=... gives them (TFLOP/s, GB/s)"
    )
