"""How the next candidate is chosen: one module for each strategy, one interface for all.

A strategy is a pure function of the settled part of the tree. `horizon(k)` says how many nodes must be settled
before candidate k is proposed, and `propose` then sees exactly those: so the tree follows from the answers and the
evaluations, and never from which of them came first. What a strategy leaves to chance is drawn from the run's seed
and the candidate's number.
"""

from __future__ import annotations

from ..config import Search
from .base import Strategy
from .beam import Beam
from .best_of_n import BestOfN
from .islands import Islands
from .refine import Refine

__all__ = ["Strategy", "strategy_of"]

_STRATEGIES: dict[str, type[Strategy]] = {
    "refine": Refine,
    "best_of_n": BestOfN,
    "beam": Beam,
    "islands": Islands,
}


def strategy_of(search: Search) -> Strategy:
    return _STRATEGIES[search.strategy](search)
