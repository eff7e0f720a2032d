"""After timing: one more block, of which the launched kernels are recorded, and what follows from it.

It comes after some ordinary blocks, a random few, of as many calls, on fresh inputs as all of them, through the
same request, and its outputs are verified like theirs; after it nothing is timed in that process any more, which
CUPTI would slow down. That a record can't be made is the submission's doing only if one of the reference can be
made beside it.
"""

from __future__ import annotations

import secrets

from .blocks import Blocks
from .link import Ended
from .outcome import Infrastructure, Outcome, Rejected, Timing
from .provenance import Record, problem

MOST_BEFORE = 2


def attribute(blocks: Blocks, timing: Timing, profiled: bool = False) -> Record:
    """The record, with what a profile needs if asked for.

    Raises `Ended` unless the submission's own kernels did the work that `timing` was measured of.
    """
    for _ in range(secrets.randbelow(MOST_BEFORE + 1)):
        entries = blocks.refill(blocks.usual)
        blocks.claim(entries, flush=True)
        blocks.verify(entries, blocks.digests(entries))
    entries = blocks.refill(blocks.usual)
    record = blocks.record(entries, profiled)
    blocks.verify(entries, blocks.digests(entries))
    if not record.complete:
        raise Ended(_without_record(blocks))
    found = problem(record, timing)
    if found is not None:
        raise Ended(Rejected(rule="provenance", message=found))
    return record


def _without_record(blocks: Blocks) -> Outcome:
    if blocks.control(blocks.refill(1)).complete:
        message = "the record of the kernels that forward() launched was disturbed: leave profilers alone"
        return Rejected(rule="provenance", message=message)
    return Infrastructure(message="the kernels that a process launches could not be recorded")
