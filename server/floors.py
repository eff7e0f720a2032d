"""What any correct program must move for a task: shares of its inputs' and outputs' bytes, by task id.

The floor decides that a time is impossible, so every share is a lower bound that no algebra, no lower precision
and no luck with random inputs can beat. Without an entry that is: nothing of the inputs, all of the outputs.
Weights never count, as they may be folded or stored smaller beforehand, and neither does arithmetic: at the usual
tolerance narrow formats, Strassen and Winograd all pass. An entry holds for KernelBench's own shapes, for which it
was worked out, in 32 bits, and for tolerances up to its 0.01: in 16 bits random numbers collide, so that the first
extreme of a row may do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .extras import Extras, built_in
from .floor_table import RULES, Rule

TOLERANCE = 0.01
OUTPUTS = Rule(reads=(), note="every call must write all of its outputs")


class FloorError(ValueError):
    """A task's own `reads` do not fit its inputs."""


@dataclass(frozen=True)
class Size:
    """One tensor: its shape, and the bytes of memory that it takes."""

    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Traffic:
    """Bytes that must be read and written, and why."""

    read: float
    written: float
    note: str


def traffic(
    task_id: str,
    extras: Extras,
    tolerance: float,
    inputs: Sequence[Size],
    outputs: Sequence[Size],
    narrowed: bool = False,
) -> Traffic:
    """`tolerance`: the larger of atol and rtol; `narrowed`: to 16 bits. Raises `FloorError`."""
    tolerance = math.inf if narrowed else tolerance
    rule = _declared(extras, len(inputs)) or _known(task_id, extras, tolerance, form(inputs, outputs))
    read = sum(share * size.bytes for share, size in zip(rule.reads, inputs, strict=False))
    return Traffic(read, rule.writes * sum(size.bytes for size in outputs), rule.note)


def form(inputs: Sequence[Size], outputs: Sequence[Size]) -> str:
    """The shapes as text, such as `64x32 32x8 -> 64x8`."""
    return " -> ".join(" ".join("x".join(map(str, size.shape)) for size in sizes) for sizes in (inputs, outputs))


def _declared(extras: Extras, count: int) -> Rule | None:
    if extras.reads is None and extras.writes is None:
        return None
    reads = extras.reads or ()
    if reads and len(reads) != count:
        raise FloorError(f"'reads' has {len(reads)} shares, but the task has {count} input tensors")
    return Rule(tuple(reads), "as the task declares", 1.0 if extras.writes is None else extras.writes)


def _known(task_id: str, extras: Extras, tolerance: float, shapes: str) -> Rule:
    """Where an entry's reasons do not all hold, only what it takes off the outputs counts."""
    intended, rule = RULES.get(task_id, ("", OUTPUTS))
    if shapes == intended and tolerance <= TOLERANCE and extras == built_in(task_id):
        return rule
    return Rule((), OUTPUTS.note, rule.writes)
