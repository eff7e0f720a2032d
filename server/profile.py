"""What a call does on the device: from the record of its kernels to the few lines that a reader or a model gets.

The record is made once, to tell whose kernels did the work (see `provenance`); asked for a profile, the
candidate's process also tells which activities lay between the marks round `forward`, and how their kernels were
launched. That is its word, of which nothing follows for verdict or reward. No torch here: the server reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from .outcome import Fact, KernelProfile, Profile, Timing
from .peaks import Peak

TOLD = 64
NAME_CAP = 200
SHOWN = 8
SHOWN_NAME = 60
TEXT_CAP = 1600
NEEDS_CUDA = "No profile: that needs a CUDA device."
UNRECORDED = "No profile: the kernels that a submission launches can't be recorded here (/health says why)."
_UNSAFE = "\N{REPLACEMENT CHARACTER}"

Extent = tuple[int, int, int]


class Launched(Fact):
    """A kernel's launches inside the calls, in ms together; grid, block and the rest are of the longest one."""

    name: str = Field(max_length=NAME_CAP)
    origin: Literal["triton", "extension", "text", ""]
    launches: int = Field(ge=0)
    ms: float = Field(ge=0, allow_inf_nan=False)
    grid: Extent | None = None
    block: Extent | None = None
    registers: int | None = Field(None, ge=0)
    spills: int | None = Field(None, ge=0)
    shared_bytes: int | None = Field(None, ge=0)
    occupancy: float | None = Field(None, ge=0, le=1)


class Inside(Fact):
    """All activities inside the calls; `others` counts the launches of kernels beyond the first `TOLD`."""

    busy_ms: float = Field(ge=0, allow_inf_nan=False)
    kernels: list[Launched] = Field(max_length=TOLD)
    others: int = Field(ge=0)
    others_ms: float = Field(ge=0, allow_inf_nan=False)


@dataclass(frozen=True)
class Work:
    """What a task's call is: FLOPs of the reference, compulsory bytes; `half`: it computes in 16 bits."""

    flops: int = 0
    size: int = 0
    half: bool = False


def profile(inside: Inside, calls: int, timing: Timing, work: Work, peak: Peak | None) -> Profile:
    """Of `calls` calls that were recorded."""
    total_ms = sum(kernel.ms for kernel in inside.kernels) + inside.others_ms
    gb_s = _rate(work.size / 1e6, timing.runtime_ms)
    tflop_s = _rate(work.flops / 1e9, timing.runtime_ms)
    return Profile(
        kernels=[_kernel(kernel, calls, total_ms) for kernel in sorted(inside.kernels, key=lambda k: -k.ms)],
        others=inside.others / calls,
        others_ms=inside.others_ms / calls,
        launches=(sum(kernel.launches for kernel in inside.kernels) + inside.others) / calls,
        busy_ms=inside.busy_ms / calls,
        runtime_ms=timing.runtime_ms,
        bytes=work.size,
        flops=work.flops,
        gb_s=gb_s,
        tflop_s=tflop_s,
        bandwidth_share=gb_s / peak.bandwidth if peak else None,
        compute_share=tflop_s / (peak.half if work.half else peak.tf32) if peak else None,
    )


def text(found: Profile) -> str:
    """A few lines, at most `TEXT_CAP` characters."""
    shown = found.kernels[:SHOWN]
    rest = found.kernels[SHOWN:]
    lines = [
        f"Profile of one call: {_count(found.launches)}; the device is busy for {found.busy_ms:.4g} ms of it.",
        *(f"- {line(kernel)}" for kernel in shown),
    ]
    if rest or found.others:
        left_ms = sum(kernel.ms for kernel in rest) + found.others_ms
        lines.append(f"- further kernels: {left_ms:.4g} ms")
    return "\n".join([*lines, rates(found)])[:TEXT_CAP]


def line(kernel: KernelProfile) -> str:
    """One kernel."""
    parts = [f"{short(kernel.name)}: {_count(kernel.launches)}, {kernel.ms:.4g} ms ({kernel.share:.0%})"]
    if kernel.grid and kernel.block:
        parts.append(f"grid {extent(kernel.grid)}, block {extent(kernel.block)}")
    if kernel.registers is not None:
        spilled = f" and {kernel.spills} spilled" if kernel.spills else ""
        parts.append(f"{kernel.registers} registers a thread{spilled}")
    if kernel.shared_bytes:
        parts.append(f"{kernel.shared_bytes / 1024:.3g} KiB shared memory")
    if kernel.occupancy is not None:
        parts.append(f"occupancy {kernel.occupancy:.0%}")
    return ", ".join(parts)


def rates(found: Profile) -> str:
    """What the call achieves of the device's peaks."""
    memory = f"{found.gb_s:.4g} GB/s" + _of(found.bandwidth_share)
    compute = f", {found.tflop_s:.3g} TFLOP/s" + _of(found.compute_share) if found.flops else ""
    return f"Over the timed call, with inputs, weights and outputs moved once each: {memory}{compute}."


def short(name: str, limit: int = SHOWN_NAME) -> str:
    """A kernel's name for people: no control characters, no more than `limit`."""
    clean = "".join(character if character.isprintable() else _UNSAFE for character in name)
    return clean if len(clean) <= limit else f"{clean[: limit - 3]}..."


def extent(size: Extent) -> str:
    return "x".join(map(str, size))


def _kernel(kernel: Launched, calls: int, total_ms: float) -> KernelProfile:
    told = kernel.model_dump(exclude={"launches", "ms"})
    return KernelProfile(
        launches=kernel.launches / calls, ms=kernel.ms / calls, share=kernel.ms / max(total_ms, 1e-9), **told
    )


def _count(launches: float) -> str:
    return f"{launches:g} launch{'' if launches == 1 else 'es'}"


def _rate(amount: float, ms: float) -> float:
    return amount / ms if ms > 0.0 else 0.0


def _of(share: float | None) -> str:
    return "" if share is None else f" ({share:.0%} of the device's peak)"
