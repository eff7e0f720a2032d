"""Candidate and twin in contexts of a kind (see `context`), where that shows in their times.

It does where a task's kernels are short: told by how long the host takes to launch them, of the time that a call
of the reference takes. Elsewhere nothing is done.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from .link import CandidateLink, Ended, TwinLink
from .outcome import Infrastructure
from .reference import Reference

SHARE = 0.25
SHORT_S, SHORT_SHARE = 1e-4, 0.4
"""A single kernel of 30 us or less is as sensitive; the host needs longer for it than the device."""
PLAUSIBLE = 1.15
"""Times the limit: a slower pace was measured while something else was on the device."""


def short_kernels(reference: Reference, inputs: list[Any]) -> bool:
    """By one more call of a reference that has been called before."""
    torch.cuda.synchronize(reference.device)
    begun = time.perf_counter()
    reference(inputs)
    host_s = time.perf_counter() - begun
    torch.cuda.synchronize(reference.device)
    share = SHORT_SHARE if host_s < SHORT_S else SHARE
    return host_s > share * (time.perf_counter() - begun)


def pace_of(candidate: CandidateLink) -> float:
    """In us, see `context.pace`; to be asked before the submission is imported, so any fault is ours (`Ended`)."""
    try:
        us = candidate.call("pace").get("us")
    except Ended as end:
        message = f"the candidate's process ended before it had a submission: {end.outcome.kind}"
        raise Ended(Infrastructure(message=message)) from None
    return us if isinstance(us, float) else 0.0


def match(twin: TwinLink, pace_us: float, limit_us: float) -> None:
    """Have the twin draw a context of the candidate's kind, whose pace that is; raises `Ended`."""
    if 0.0 < pace_us < PLAUSIBLE * limit_us:
        twin.call("draw", limit=limit_us, quick=pace_us <= limit_us)
