"""From an outcome to a reward: pure functions, always finite, never a guess.

A correct submission that could not be timed gets the base, `0.3`: neither praise nor blame for a speed that
nobody measured. So does any under `roofline` on a device whose peaks are not known: problem text, feedback and log
say so. A measured time at the edge of its range goes to the clamp of that side. NaN and negative
values are no measurement at all but a fault of the caller, and raise ValueError.
"""

from __future__ import annotations

import math

from .config import RewardKind
from .outcome import Outcome, Passed

BASE = 0.3
REWARD_RANGE = (0.0, 3.3)
_LOG2_LOW = -0.2
_LOG2_HIGH = 3.0
_ROOFLINE_SPAN = 2.7


def speedup_reward(correct: bool, speedup: float | None) -> float:
    """0 unless correct, else `0.3 + clamp(log2(speedup), -0.2, 3)`; 0.3 where untimed (None).

    A speedup of 0 (the reference took no time) gives 0.1, infinity 3.3. Raises ValueError for NaN and for
    negative values, whether correct or not.
    """
    if speedup is not None and (math.isnan(speedup) or speedup < 0.0):
        raise ValueError(f"speedup={speedup!r} is not a measurement: give a number >= 0, or None if untimed")
    if not correct:
        return 0.0
    if speedup is None:
        return BASE
    gain = math.log2(speedup) if speedup > 0.0 else -math.inf
    return BASE + min(max(gain, _LOG2_LOW), _LOG2_HIGH)


def roofline_reward(correct: bool, t_min_ms: float | None, runtime_ms: float | None) -> float:
    """0 unless correct, else `0.3 + 2.7 * min(t_min / t_new, 1)`; 0.3 where either time is unknown (None).

    Both in milliseconds. A `t_min_ms` of 0 gives 0.3; a runtime at or below `t_min_ms` (0 included) gives 3.
    Raises ValueError for NaN, negative or infinite values.
    """
    for name, value in (("t_min_ms", t_min_ms), ("runtime_ms", runtime_ms)):
        if value is not None and not 0.0 <= value < math.inf:
            raise ValueError(f"{name}={value!r} is not a time: give milliseconds >= 0, or None if unknown")
    if not correct:
        return 0.0
    if t_min_ms is None or runtime_ms is None or t_min_ms == 0.0:
        return BASE
    return BASE + _ROOFLINE_SPAN * (t_min_ms / runtime_ms if runtime_ms > t_min_ms else 1.0)


def reward(outcome: Outcome, kind: RewardKind) -> float:
    """The reward of one step. Every outcome but `Passed` gets 0, `Infrastructure` too: that one is marked
    by a field of its own, for the trainer to mask."""
    if not isinstance(outcome, Passed):
        return 0.0
    timing, roofline = outcome.timing, outcome.roofline
    if kind == "speedup":
        return speedup_reward(True, timing.speedup if timing else None)
    return roofline_reward(True, roofline.t_min_ms if roofline else None, timing.runtime_ms if timing else None)
