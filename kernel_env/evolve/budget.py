"""What a run may spend, in every unit at once, reserved before it is spent.

A node reserves the most that it can cost before its model is asked; when it is settled its reservation is
replaced by what it did cost. So no limit is passed by more than the units in which nothing can be foreseen: an
answer's tokens where the endpoint ignores the cap, and an evaluation's seconds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from .config import Budget


@dataclass(frozen=True)
class Spend:
    """Amounts by unit. `calls` counts requests, retries included; `gpu_seconds` are those of evaluations."""

    evaluations: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Spend) -> Spend:
        return Spend(**{unit: getattr(self, unit) + getattr(other, unit) for unit in UNITS})

    def to_dict(self) -> dict[str, Any]:
        return {
            unit: round(value, 6) if isinstance(value, float) else value for unit, value in asdict(self).items()
        }


UNITS = tuple(field.name for field in fields(Spend))


class Ledger:
    """`spent` is what settled nodes did cost; the rest is reserved, by node."""

    def __init__(self, limits: Budget) -> None:
        self.limits = limits
        self.spent = Spend()
        self._reserved: dict[int, Spend] = {}

    def lacking(self, need: Spend) -> str | None:
        """The first unit of which `need` is not left, or None."""
        taken = sum(self._reserved.values(), self.spent)
        for unit in UNITS:
            limit = getattr(self.limits, unit)
            if limit is not None and getattr(taken, unit) + getattr(need, unit) > limit:
                return unit
        return None

    def reserve(self, node: int, need: Spend) -> bool:
        """Set `need` aside for a node, beside what it has; False, and nothing is, where that is not left."""
        if self.lacking(need) is not None:
            return False
        self._reserved[node] = self._reserved.get(node, Spend()) + need
        return True

    def charge(self, node: int, cost: Spend) -> None:
        """The node is settled: `cost` takes the place of its reservation."""
        self._reserved.pop(node, None)
        self.spent = self.spent + cost
