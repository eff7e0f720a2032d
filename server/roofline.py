"""The speed of light of a task on a device: t_min = max(FLOPs / peak, compulsory bytes / bandwidth).

FLOPs are those of the reference's matrix products, convolutions and attention, as torch counts them; compulsory
bytes are the inputs, the parameters and buffers, and the outputs, each once. A 32-bit task has the TF32 roof.
This is the figure for reward and report, not a bound that no honest kernel can pass: one that needs fewer
operations than the reference may.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from .layout import flatten
from .outcome import Roofline
from .peaks import Peak, peak
from .reference import Reference


def measure(reference: Reference, inputs: list[Any]) -> tuple[Any, int, int]:
    """Run the reference once; its outputs, the FLOPs it took, and its compulsory bytes."""
    counter = FlopCounterMode(display=False)
    with counter:
        outputs = reference(inputs)
    tensors = [*flatten(inputs)[1], *reference.state().values(), *flatten(outputs)[1]]
    return outputs, counter.get_total_flops(), sum(tensor.nbytes for tensor in tensors)


def roofline(flops: int, size: int, half: bool, device_name: str) -> Roofline | None:
    """None where the device's peaks are not known. `half`: the task computes in 16 bits."""
    known = peak(device_name)
    return None if known is None else bound(flops, size, half, known)


def bound(flops: int, size: int, half: bool, known: Peak) -> Roofline:
    compute_ms = flops / ((known.half if half else known.tf32) * 1e9)
    memory_ms = size / (known.bandwidth * 1e6)
    return Roofline(
        bound="compute" if compute_ms > memory_ms else "memory",
        arithmetic_intensity=flops / max(size, 1),
        t_min_ms=max(compute_ms, memory_ms),
    )


def floor_ms(output_bytes: int, cache_bytes: int, known: Peak) -> float:
    """A time that no correct program beats: writing the outputs to memory, but for what the L2 cache can hold.

    Sound for every task, and so far below `t_min` for most: how much of its inputs a program must read, and what
    it must compute, depends on the task's structure.
    """
    return max(output_bytes - cache_bytes, 0) / (known.bandwidth * 1e6)


def computes_in_half(inputs: list[Any]) -> bool:
    """Are all floating-point inputs 16 bits wide?"""
    kinds = {tensor.dtype for tensor in flatten(inputs)[1] if tensor.dtype.is_floating_point}
    return bool(kinds) and kinds <= {torch.float16, torch.bfloat16}
