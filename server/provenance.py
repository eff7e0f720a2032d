"""Whose kernels did the work: decides from the device activities that one block of calls launched.

The record is made by CUPTI in the candidate's process (see `activity`) and told as names, origins and times; the
decision is the judge's. A kernel is the submission's own if its own build or its own Triton function holds it,
or, for text compiled at run time, if its source names it. A kernel in the namespace of a library (`at`, `cub`,
`thrust`, `cutlass`) is the library's, whoever compiled it: one of one's own that uses their device functions has a
name of its own. Fills and copies count for neither side. Then no kernel of a library may have run,
at least one of the submission's must have, and its own have to take 95 % of the time that is left.

What this rests on: the record is the word of the process that runs the submission, so code with enough reach into
it can falsify it. `hatches` closes the ways that Python offers. A submission that notices the record and runs an
own kernel for it alone has to be as quick as in the timed blocks, which no cheat is that has anything to gain;
one that keeps work out of it leaves device time that nothing accounts for. Both are refused.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from .outcome import Fact, Timing
from .profile import Inside

OWN_SHARE = 0.95
SLOWER, SLOWER_MS = 2.0, 0.05
ACCOUNTED = 0.5
GAP_MS = 0.005
HOST_SHARE = 0.25
NAMES_CAP, NAME_CAP = 512, 1000
_SHOWN, _SHOWN_CHARACTERS = 4, 120

_MEMORY = re.compile(r"^Mem(?:cpy|set) ")
_MOVES = re.compile(
    r"FillFunctor|direct_copy_kernel_cuda|\b\w+_copy_kernel_cuda|CatArrayBatchedCopy|\barange_cuda_out"
    r"|roll_cuda_kernel|flip_kernel"
)
_UNNAMED = re.compile(
    r"^(?:void )?\(anonymous namespace\)::(?:softmax_warp_|elementwise_kernel_with_index<|.*\bat::native::)"
)
_HEAD = re.compile(r"^(?:void )?([\w:]+?)::\w+[<(]")
_LIBRARIES = frozenset({"at", "at_cuda_detail", "c10", "cub", "thrust", "cutlass"})
_VENDOR_ROOTS = re.compile(
    r"^(?:void )?(?:cudnn|cublas|cusparse|cufft|cusolver|cutensor|magma|pytorch_flash|cutlass|internal)\w*::"
)
_VENDOR = re.compile(
    r"^(?:void )?(?:(?:volta|turing|ampere|ada|hopper|blackwell)_\w*(?:gemm|conv|cudnn|fp16|fp32|s16816|sgemm)"
    r"|sm\d+_xmma|cutlass_\d+|nvjet_|cudnn_|cublas|fmha_cutlass|xmma_)"
)
_LIKE_VENDOR = re.compile(
    r"gemm|gemv|splitK|implicit_convolve|winograd|conv2d_|_fft|fft_|dot_kernel|reduce_1Block|nchwToNhwc|flash_fwd"
)


class KernelTime(Fact):
    """One kernel's launches in the record, by its demangled name, and the ms that they took together."""

    name: str = Field(max_length=NAME_CAP)
    origin: Literal["triton", "extension", "text", ""]
    launches: int = Field(ge=0)
    ms: float = Field(ge=0, allow_inf_nan=False)


class Record(Fact):
    """What `calls` calls launched. `complete` tells that the record's own marks are in it; `busy_ms` is the time
    in which the device did anything, `work_ms` anything but moves, `rest_ms` the sum for kernels beyond the first
    `NAMES_CAP`. `inside`: more of what lay inside the calls alone, where a profile was asked for.
    """

    calls: int = Field(ge=1)
    complete: bool
    work_ms: float = Field(ge=0, allow_inf_nan=False)
    busy_ms: float = Field(ge=0, allow_inf_nan=False)
    rest_ms: float = Field(ge=0, allow_inf_nan=False)
    kernels: list[KernelTime] = Field(max_length=NAMES_CAP)
    inside: Inside | None = None


def problem(record: Record, timing: Timing) -> str | None:
    """What the record says against the submission, or None."""
    return _foreign(record) or _inconsistent(record, timing)


def _foreign(record: Record) -> str | None:
    own_ms = sum(kernel.ms for kernel in record.kernels if is_own(kernel))
    rest = [kernel for kernel in record.kernels if not is_own(kernel) and not is_move(kernel.name)]
    total_ms = own_ms + record.rest_ms + sum(kernel.ms for kernel in rest)
    library = [kernel for kernel in rest if is_library(kernel)]
    if library:
        return (
            f"forward() had kernels of a library do its work: {_listed(library, total_ms)}."
            " Compute it in your own kernel (fills and copies are fine)"
        )
    if not any(is_own(kernel) for kernel in record.kernels):
        others = f", only {_listed(rest, total_ms)}" if rest else ""
        return (
            f"a call of forward() launched no kernel of the submission's own{others}: launch yours in every call"
        )
    if own_ms < OWN_SHARE * total_ms:
        return (
            f"the submission's own kernels took {own_ms / total_ms:.0%} of the device's time, at least"
            f" {OWN_SHARE:.0%} are needed; the rest went to {_listed(rest, total_ms)}"
        )
    return None


def _inconsistent(record: Record, timing: Timing) -> str | None:
    work_ms = record.work_ms / record.calls
    if work_ms > SLOWER * timing.runtime_ms + SLOWER_MS:
        return (
            f"a call's kernels took {work_ms:.3g} ms while their names were recorded, and"
            f" {timing.runtime_ms:.3g} ms when they were timed: run the same kernels in every call"
        )
    launches = sum(kernel.launches for kernel in record.kernels) / record.calls
    accounted_ms = record.busy_ms / record.calls + GAP_MS * (launches + 2)
    host_ms = timing.host_ms or 0.0
    if accounted_ms < ACCOUNTED * timing.runtime_ms and host_ms < HOST_SHARE * timing.runtime_ms:
        return (
            f"a call was timed at {timing.runtime_ms:.3g} ms, and the kernels that were recorded account for"
            f" {record.busy_ms / record.calls:.3g} ms: leave the device no work that can't be seen"
        )
    return None


def is_move(name: str) -> bool:
    """A fill, a copy or a cast by copy: PyTorch's, or the device's own."""
    pytorchs = "at" in _spaces(name) or bool(_UNNAMED.match(name))
    return bool(_MEMORY.match(name)) or (pytorchs and bool(_MOVES.search(name)))


def is_own(kernel: KernelTime) -> bool:
    if _spaces(kernel.name) & _LIBRARIES:
        return False
    return kernel.origin in ("triton", "extension") or (kernel.origin == "text" and not is_library(kernel))


def is_library(kernel: KernelTime) -> bool:
    """By evidence: whatever else is not the submission's own counts as unknown."""
    name, origin = kernel.name, kernel.origin
    if is_move(name):
        return False
    if _spaces(name) & _LIBRARIES:
        return True
    if origin in ("triton", "extension"):
        return False
    known = bool(_VENDOR.match(name) or _VENDOR_ROOTS.match(name) or (origin == "" and _UNNAMED.match(name)))
    return known or (origin == "" and bool(_LIKE_VENDOR.search(name)))


def _spaces(name: str) -> frozenset[str]:
    """The namespaces that a kernel itself lies in, not those of its parameters; a library's may be wrapped."""
    found = _HEAD.match(name.replace("(anonymous namespace)", "_"))
    return frozenset(found[1].split("::")) if found else frozenset()


def _listed(kernels: list[KernelTime], total_ms: float) -> str:
    ordered = sorted(kernels, key=lambda kernel: -kernel.ms)
    shown = [f"{_short(k.name)} ({k.ms / max(total_ms, 1e-9):.0%})" for k in ordered[:_SHOWN]]
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(shown) + more if shown else "kernels of unknown names"


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN_CHARACTERS else f"{name[: _SHOWN_CHARACTERS - 3]}..."
