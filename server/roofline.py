"""The speed of light of a task on a device: t_min = max(FLOPs / peak, compulsory bytes / bandwidth).

FLOPs are those of the reference's matrix products, convolutions and attention, as torch counts them; compulsory
bytes are the inputs, the parameters and buffers, and the outputs, each once. A 32-bit task has the TF32 roof.
This is the figure for reward and report, not a bound that no honest kernel can pass: one that needs fewer
operations than the reference may. The bound by which a time is called impossible is `floor_ms` of what `floors`
says that any correct program must move.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from .floors import FloorError, Size, Traffic, traffic
from .layout import flatten
from .outcome import Roofline
from .peaks import Peak
from .reference import Reference, TaskFault

# Memory clocks: the T4's is 7 % above its datasheet's rate, the H200's 2 %.
_MEMORY_HEADROOM = 1.08


def measure(reference: Reference, inputs: list[Any]) -> tuple[Any, int, int]:
    """Run the reference once; its outputs, the FLOPs it took, and its compulsory bytes."""
    counter = FlopCounterMode(display=False)
    with counter:
        outputs = reference(inputs)
    tensors = [*flatten(inputs)[1], *reference.state().values(), *flatten(outputs)[1]]
    return outputs, counter.get_total_flops(), sum(tensor.nbytes for tensor in tensors)


def bound(flops: int, size: int, half: bool, known: Peak) -> Roofline:
    """`half`: the task computes in 16 bits."""
    compute_ms = flops / ((known.half if half else known.tf32) * 1e9)
    memory_ms = size / (known.bandwidth * 1e6)
    return Roofline(
        bound="compute" if compute_ms > memory_ms else "memory",
        arithmetic_intensity=flops / max(size, 1),
        t_min_ms=max(compute_ms, memory_ms),
    )


def floor_ms(moved: Traffic, cache_bytes: int, known: Peak) -> float:
    """A time that no correct program beats: its traffic at the memory's full rate.

    As much as the L2 cache holds may have been there before the call, and as much of the outputs may stay there
    after it.
    """
    read, written = (max(size - cache_bytes, 0.0) for size in (moved.read, moved.written))
    return (read + written) / (known.bandwidth * _MEMORY_HEADROOM * 1e6)


def doubt(runtime_ms: float, floor: float, moved: Traffic, cache_bytes: int, known: Peak) -> str:
    """Why a time below `floor` can't be true, with its numbers."""
    return (
        f"{runtime_ms:.4g} ms were measured, in two processes, but no correct program takes less than"
        f" {floor:.4g} ms here: it reads {moved.read / 1e6:.4g} MB of inputs and writes"
        f" {moved.written / 1e6:.4g} MB of outputs ({moved.note}), the memory moves {known.bandwidth:g} GB/s, and"
        f" the L2 cache holds {cache_bytes / 1e6:.3g} MB. Every call must compute all outputs from its inputs."
    )


def needed(task_id: str, reference: Reference, inputs: list[Any], outputs: Any, tolerance: float) -> Traffic:
    """What a correct program must move for these inputs and outputs. Raises `TaskFault`."""
    given = flatten(inputs)[1]
    before = {_storage(tensor) for tensor in [*given, *reference.state().values()]}
    read, written = _sizes(given, set()), _sizes(flatten(outputs)[1], before)
    try:
        narrowed = reference.precision != "fp32"
        return traffic(task_id, reference.extras, tolerance, read, written, narrowed)
    except FloorError as error:
        raise TaskFault(str(error)) from None


def _sizes(tensors: list[torch.Tensor], counted: set[int]) -> list[Size]:
    """What tensors take in memory; storage that is `counted` and repetition by a stride of zero are free."""
    sizes = []
    for tensor in tensors:
        own = [size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
        size = 0 if _storage(tensor) in counted else math.prod(own) * tensor.itemsize
        counted.add(_storage(tensor))
        sizes.append(Size(tuple(tensor.shape), size))
    return sizes


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def computes_in_half(inputs: list[Any]) -> bool:
    """Are all floating-point inputs 16 bits wide?"""
    kinds = {tensor.dtype for tensor in flatten(inputs)[1] if tensor.dtype.is_floating_point}
    return bool(kinds) and kinds <= {torch.float16, torch.bfloat16}
