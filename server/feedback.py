"""What a model reads after a step: what happened, at which stage, and what to do next.

One text for each kind of outcome. Messages inside outcomes are written where the fault was found and are
passed on, only capped; nothing here interprets them. Numbers are given with their units and uncertainty.
"""

from __future__ import annotations

from . import profile
from .outcome import (
    BuildFailed,
    Crashed,
    ImpossibleTiming,
    Infrastructure,
    Outcome,
    OutOfMemory,
    Passed,
    Raised,
    Rejected,
    TimedOut,
    Timing,
    WrongOutput,
)

MESSAGE_CAP = 4000
_DOING = {
    "compile": "building and constructing ModelNew",
    "correctness": "running forward on the correctness inputs",
    "timing": "running forward in the timed runs",
}
_CLOCKS = {
    "events": "CUDA events",
    "wall": "wall clock",
    "judge": "the judge's own clock, which overruled the times that the device reported",
    "mock": "mock: these times are fake",
}
_NO_ROOFLINE = "No roofline: the server does not know this device's peak rates (KERNEL_ENV_PEAKS gives them)."
_SIGNALS = {
    "SIGSEGV": "a read or write outside the memory that it owns: check indices, masks and pointers",
    "SIGBUS": "a read or write outside a mapping: check indices and sizes",
    "SIGFPE": "an integer division by zero or an overflow: check divisors and grid sizes",
    "SIGABRT": "an abort, as a failed assertion or a corrupted heap causes: check bounds of every write",
    "SIGILL": "an instruction that this processor does not have: build for the machine's own architecture",
    "SIGSYS": "a system call that the sandbox forbids: a kernel needs no files, network or processes",
    "SIGKILL": "it was killed, most often for using too much memory",
    "SIGXCPU": "it used up its processor time",
}


def feedback(outcome: Outcome) -> str:
    """The text for `outcome`, at most a few thousand characters, ending without a newline."""
    match outcome:
        case Rejected():
            when = "for what it did when it ran" if outcome.rule in ("guard", "provenance") else "before it ran"
            return f"Rejected {when} ({outcome.rule}).\n{_capped(outcome.message)}"
        case BuildFailed():
            return f"Did not build.\n{_capped(outcome.message)}"
        case Raised():
            return f"Raised an exception while {_DOING[outcome.stage]}.\n{_capped(outcome.message)}"
        case Crashed():
            return _crashed(outcome)
        case TimedOut():
            return _timed_out(outcome)
        case OutOfMemory():
            return (
                f"Ran out of memory while {_DOING[outcome.stage]}; the reference fits in this device:"
                f" allocate less.\n{_capped(outcome.message)}"
            )
        case WrongOutput():
            return f"{_wrong_where(outcome)}\n{_capped(outcome.message)}"
        case ImpossibleTiming():
            return f"The outputs are right, but the times can't be true.\n{_capped(outcome.message)}"
        case Passed():
            return _passed(outcome)
        case Infrastructure():
            return (
                "The environment failed, not the submission: this does not use up a turn and says nothing"
                f" about the code. Send it again.\n{_capped(outcome.message)}"
            )


def trim(text: str, limit: int) -> str:
    """`text` in at most `limit` characters: its beginning and end, with a line that counts what was cut.

    The beginning keeps two thirds, since compilers and tracebacks put the cause at either end, mostly first.
    `limit` must be at least 80.
    """
    if limit < 80:
        raise ValueError(f"limit={limit} leaves no room for text; use at least 80")
    if len(text) <= limit:
        return text
    room = limit - len(_cut(len(text)))
    head = room * 2 // 3
    tail = room - head
    return text[:head] + _cut(len(text) - room) + text[len(text) - tail :]


def _cut(count: int) -> str:
    return f"\n[... {count} characters cut ...]\n"


def _capped(message: str) -> str:
    return trim(message.strip(), MESSAGE_CAP)


def _crashed(outcome: Crashed) -> str:
    if outcome.signal is not None:
        reason = _SIGNALS.get(outcome.signal, "it did not end by itself")
        told = f"The process died of {outcome.signal} while {_DOING[outcome.stage]}: {reason}."
    else:
        code = "" if outcome.exit_code is None else f" with exit code {outcome.exit_code}"
        told = (
            f"The process ended{code} while {_DOING[outcome.stage]}. A submission must not exit; raise an"
            " exception to report an error."
        )
    return f"{told}\n{_capped(outcome.message)}".rstrip()


def _timed_out(outcome: TimedOut) -> str:
    advice = {
        "compile": "use fewer template instantiations or autotune configurations",
        "correctness": "look for an endless loop, a deadlock between threads, or far too much work",
        "timing": "the kernel is far slower than the reference, or hangs on some call",
    }[outcome.stage]
    told = f"Ended after {outcome.seconds:.3g} s while {_DOING[outcome.stage]}: {advice}."
    return f"{told}\n{_capped(outcome.message)}".rstrip()


def _wrong_where(outcome: WrongOutput) -> str:
    if outcome.stage == "timing":
        return "Wrong output in a timed run, though the correctness trials passed: each call must compute anew."
    return "Built and ran, but the output is not the reference's."


def _passed(outcome: Passed) -> str:
    lines = ["Correct on every trial."]
    timing = outcome.timing
    if timing is None:
        lines.append("Not timed: no speedup is reported, and the reward is that of a correct submission.")
    else:
        lines += _times(timing)
        if outcome.roofline is not None:
            lines.append(_roofline(outcome.roofline.t_min_ms, outcome.roofline.bound, timing.runtime_ms))
        else:
            lines.append(_NO_ROOFLINE)
    if outcome.profile is not None:
        lines.append(profile.text(outcome.profile))
    if outcome.note:
        lines.append(_capped(outcome.note))
    return "\n".join(lines)


def _times(timing: Timing) -> list[str]:
    lines = [
        f"Speedup {timing.speedup:.3g}x (95 % interval {timing.low:.3g} to {timing.high:.3g}):"
        f" {timing.runtime_ms:.4g} ms against {timing.ref_runtime_ms:.4g} ms for the reference"
        f" ({_CLOCKS[timing.clock]}, {timing.samples} samples)."
    ]
    if timing.compiled_ms is not None:
        lines.append(
            f"Under torch.compile the reference takes {timing.compiled_ms:.4g} ms,"
            f" {timing.compiled_ms / timing.runtime_ms:.3g} times as long as the submission."
        )
    if timing.launch_bound and timing.host_ms is not None:
        lines.append(
            f"Launch-bound: the host takes {timing.host_ms:.3g} ms to launch what the device does in"
            f" {timing.runtime_ms:.3g} ms. The host's time counts only where it is far above the reference's;"
            " fewer, larger kernels help both."
        )
    if timing.high < 1.0:
        lines.append("That is slower than the reference: a faster kernel earns more.")
    elif timing.low <= 1.0:
        lines.append("That cannot be told from the reference's speed: a faster kernel earns more.")
    return lines


def _roofline(t_min_ms: float, bound: str, runtime_ms: float) -> str:
    limit = "memory bandwidth" if bound == "memory" else "compute throughput"
    share = f", {t_min_ms / runtime_ms:.0%} of which is reached" if runtime_ms > 0.0 else ""
    return f"The device's {limit} allows {t_min_ms:.4g} ms{share}."
