"""What a run comes to. Unpacks to two, as EvoFabric's does: `success, result = evolve()`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .budget import Spend
from .metrics import Metrics
from .tree import Node

INTERRUPTED = 130
_BROKEN_OFF = {"endpoint": 4, "evaluator": 4, "interrupted": INTERRUPTED}


@dataclass(frozen=True)
class Best:
    """A confirmed program. `speedup` is None where the device can't time it; `spread` is half the width of its
    95 % interval, as a factor above 1."""

    node: int
    code: str
    speedup: float | None
    spread: float
    faster: bool
    metrics: Metrics
    confirmations: int


@dataclass(frozen=True)
class EvolveResult:
    """`success`: there is a verified, confirmed `ModelNew`; `result` is its source, else the reason why not.

    `history` has every candidate in order, `usage` everything spent, also on candidates that a stop overtook.
    `stop_kind` and `stop_reason` say why the run ended. `control` is the result of the control run, if there was
    one.
    """

    success: bool
    result: str
    best: Best | None
    history: tuple[Node, ...]
    usage: Spend
    stop_kind: str
    stop_reason: str
    run_dir: Path
    failures: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    control: EvolveResult | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.success
        yield self.result

    @property
    def metrics(self) -> Metrics | None:
        """Those that confirmed the best."""
        return self.best.metrics if self.best else None

    @property
    def status(self) -> int:
        """The command's exit status: 0 verified and faster, 1 verified but not faster, 2 nothing correct, 4 ended
        by the endpoint or the evaluator, 130 interrupted. What was found is saved in each case."""
        if self.stop_kind in _BROKEN_OFF:
            return _BROKEN_OFF[self.stop_kind]
        if self.best is None:
            return 2
        return 0 if self.best.faster else 1

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without programs."""
        best = self.best
        return {
            "success": self.success,
            "status": self.status,
            "stop": self.stop_kind,
            "stop_reason": self.stop_reason,
            "best": None
            if best is None
            else {
                "node": best.node,
                "speedup": best.speedup,
                "spread": best.spread,
                "faster": best.faster,
                "confirmations": best.confirmations,
                "metrics": best.metrics.to_dict(),
            },
            "candidates": len(self.history),
            "failures": self.failures,
            "usage": self.usage.to_dict(),
            "run_dir": str(self.run_dir),
            "notes": list(self.notes),
            "control": self.control.to_dict() if self.control else None,
        }
