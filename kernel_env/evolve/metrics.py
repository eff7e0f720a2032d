"""`Metrics`: what an evaluator says of one program. The five first fields are EvoFabric's, in its order.

What was not measured is NaN in the three numbers, None elsewhere, and null in `to_dict()`; never a guess.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

NAN = math.nan
UNMEASURED = ("speedup", "original_time", "optimized_time")


@dataclass
class Metrics:
    """A program is verified if it has no `error` and a positive speedup, or NaN where it could not be timed.

    `original_time` and `optimized_time` are of one call, in `unit`; `speedup_low` and `speedup_high` bound the
    speedup (95 %). `stage` is how far the program got, `feedback` what to tell a model. `quarantine` says why a
    measurement can't be true. `infrastructure` marks a fault of the evaluator, which says nothing of the program.
    `device_seconds` is what the evaluation took of the device.
    """

    speedup: float
    original_time: float
    optimized_time: float
    error: str | None = None
    traceback: str | None = None
    _: KW_ONLY
    stage: str = ""
    feedback: str = ""
    reward: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    t_min: float | None = None
    roofline_frac: float | None = None
    quarantine: str | None = None
    infrastructure: bool = False
    mock: bool = False
    device_seconds: float = 0.0
    unit: str = "ms"
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stage:
            self.stage = "passed" if self.error is None else "failed"

    @property
    def correct(self) -> bool:
        """Verified: the only programs that may be best."""
        sound = self.error is None and not self.infrastructure and self.quarantine is None
        return sound and (math.isnan(self.speedup) or self.speedup > 0.0)

    @property
    def timed(self) -> bool:
        return self.correct and math.isfinite(self.speedup)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; a number that is not finite is None."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Metrics:
        numbers = {name: NAN if found[name] is None else found[name] for name in UNMEASURED}
        return cls(**{**found, **numbers})


def failed(error: str, stage: str = "failed", **more: Any) -> Metrics:
    """Metrics of a program that is not right, or was not judged."""
    return Metrics(0.0, NAN, NAN, error, stage=stage, **more)


def from_observation(seen: Mapping[str, Any]) -> Metrics:
    """From the fields of a `KernelObservation`, as a server or the evaluator on this machine gives them."""
    metadata: Mapping[str, Any] = seen.get("metadata") or {}
    durations = metadata.get("durations") or {}
    feedback = str(seen.get("feedback", ""))
    stage = str(seen["stage"])
    correct = bool(seen.get("correct"))
    impossible = metadata.get("outcome") == "impossible_timing"
    numbers = {
        "speedup": "speedup",
        "original_time": "ref_runtime_ms",
        "optimized_time": "runtime_ms",
    }
    measured = {name: _number(seen.get(theirs)) for name, theirs in numbers.items()}
    if not correct:
        measured["speedup"] = 0.0
    kept = ("device", "versions", "clock", "seeds_digest", "code_hash", "outcome", "rule")
    return Metrics(
        measured["speedup"],
        measured["original_time"],
        measured["optimized_time"],
        error=None if correct else feedback or stage,
        stage=stage,
        feedback=feedback,
        reward=seen.get("reward"),
        speedup_low=seen.get("speedup_low"),
        speedup_high=seen.get("speedup_high"),
        t_min=seen.get("t_min_ms"),
        roofline_frac=seen.get("roofline_frac"),
        quarantine=feedback if impossible else None,
        infrastructure=stage == "infrastructure",
        mock=bool(seen.get("mock")),
        device_seconds=sum(float(durations.get(name, 0.0)) for name in ("candidate", "correctness", "timing")),
        details={name: metadata[name] for name in kept if metadata.get(name) is not None},
    )


def _plain(value: Any) -> Any:
    """`value` in JSON's types: what an evaluator of the user's puts into `details` may be anything."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def _number(value: Any) -> float:
    return NAN if value is None else float(value)
