"""From an evaluation to what the agent and the event log see. Pure functions; every number is finite or None."""

from __future__ import annotations

import math
from typing import Any

from kernel_env import __version__

from . import peaks
from .outcome import Device, Evaluation, Outcome, Passed, Rejected


def numbers(outcome: Outcome) -> dict[str, Any]:
    """The measured fields of `KernelObservation`, by name; empty where nothing was measured."""
    if not isinstance(outcome, Passed):
        return {}
    fields: dict[str, Any] = {}
    timing, roofline = outcome.timing, outcome.roofline
    if timing is not None:
        fields |= {
            "speedup": _finite(timing.speedup),
            "speedup_low": _finite(timing.low),
            "speedup_high": _finite(timing.high),
            "runtime_ms": _finite(timing.runtime_ms),
            "ref_runtime_ms": _finite(timing.ref_runtime_ms),
            "compiled_runtime_ms": _finite(timing.compiled_ms) if timing.compiled_ms is not None else None,
            "samples": timing.samples,
            "launch_bound": timing.launch_bound,
        }
    if roofline is not None:
        fields |= {
            "bound": roofline.bound,
            "arithmetic_intensity": _finite(roofline.arithmetic_intensity),
            "t_min_ms": _finite(roofline.t_min_ms),
        }
    if outcome.profile is not None:
        fields["profile"] = outcome.profile.model_dump(exclude_none=True)
    if timing is not None and roofline is not None:
        fields["roofline_frac"] = _ratio(roofline.t_min_ms, timing.runtime_ms)
        fields["ref_roofline_frac"] = _ratio(roofline.t_min_ms, timing.ref_runtime_ms)
    return fields


def facts(evaluation: Evaluation) -> dict[str, Any]:
    """What an observation's metadata says of its evaluation."""
    outcome = evaluation.outcome
    found: dict[str, Any] = {
        "outcome": outcome.kind,
        "code_hash": evaluation.code_hash,
        "seeds_digest": evaluation.seeds_digest,
        "durations": {name: round(value, 6) for name, value in evaluation.durations.items()},
        **where(evaluation.device),
    }
    if isinstance(outcome, Rejected):
        found["rule"] = outcome.rule
    if isinstance(outcome, Passed) and outcome.timing is not None:
        timing = outcome.timing
        found |= {"clock": timing.clock, "host_ms": timing.host_ms, "ref_host_ms": timing.ref_host_ms}
        found |= timing.model_dump(include={"std_ms", "min_ms", "max_ms"}, exclude_none=True)
        if outcome.roofline is None:
            found["roofline"] = peaks.unknown(evaluation.device.name)
    return found


def where(device: Device) -> dict[str, Any]:
    """The device and every version that a result depends on."""
    named = device.model_dump(include={"kind", "name", "index", "capability", "memory_bytes"})
    return {"device": named, "versions": {"kernel_env": __version__, **device.versions}}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ratio(part: float, whole: float) -> float | None:
    return _finite(part / whole) if whole > 0.0 else None
