"""Datasheet peaks of GPUs: dense, without structured sparsity, at the official boost clock.

TFLOP/s by arithmetic and GB/s of device memory. Boost clocks above the official one can pass a compute peak by
up to 8 %; device memory's is never passed except through caches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """TFLOP/s for fp32 on CUDA cores, TF32, and 16-bit tensor cores with fp32 accumulation; GB/s."""

    fp32: float
    tf32: float
    half: float
    bandwidth: float


# The longest entry whose words stand in the device's CUDA name decides.
PEAKS = {
    "H100 PCIe": Peak(51.2, 378.0, 756.0, 2039.0),  # NVIDIA H100 datasheet (sparse figures halved)
    "H100": Peak(66.9, 494.7, 989.4, 3352.0),  # NVIDIA H100 datasheet, SXM5 (sparse figures halved)
    "H200": Peak(66.9, 494.7, 989.4, 4800.0),  # NVIDIA H200 datasheet (sparse figures halved)
    "A100-SXM4-40GB": Peak(19.5, 156.0, 312.0, 1555.0),  # NVIDIA A100 datasheet
    "A100-PCIE-40GB": Peak(19.5, 156.0, 312.0, 1555.0),  # NVIDIA A100 datasheet
    "A100-SXM4-80GB": Peak(19.5, 156.0, 312.0, 2039.0),  # NVIDIA A100 datasheet
    "A100 80GB PCIe": Peak(19.5, 156.0, 312.0, 1935.0),  # NVIDIA A100 datasheet
    "L40S": Peak(91.6, 183.0, 362.0, 864.0),  # NVIDIA L40S datasheet (first of each pair)
    "L4": Peak(30.3, 60.0, 121.0, 300.0),  # NVIDIA L4 datasheet (sparse figures halved)
    "B200": Peak(80.0, 1125.0, 2250.0, 8000.0),  # NVIDIA HGX B200 datasheet (system / 8)
    "RTX 4090": Peak(82.6, 82.6, 165.2, 1008.0),  # NVIDIA Ada architecture whitepaper, appendix A
    "RTX 5090": Peak(104.8, 104.8, 209.5, 1792.0),  # NVIDIA RTX Blackwell whitepaper, appendix A
    "A10G": Peak(35.0, 35.0, 70.0, 600.0),  # NVIDIA A10G product brief
    "T4": Peak(8.1, 8.1, 65.0, 300.0),  # NVIDIA T4 datasheet; no TF32
}


# Parts with other figures than their namesakes, and slices of a device.
_OTHERS = re.compile(r"\b(NVL|MIG|Max-Q|Laptop)\b")


def peak(device_name: str) -> Peak | None:
    """The peaks of a device by its CUDA name, or None when they are not known."""
    if _OTHERS.search(device_name):
        return None
    names = [name for name in PEAKS if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", device_name)]
    return PEAKS[max(names, key=len)] if names else None
