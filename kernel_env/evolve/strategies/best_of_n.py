"""Independent drafts, the best of which counts: the control that every search has to beat at equal budget."""

from __future__ import annotations

from ..tree import Proposal, Tree
from .base import AHEAD, Strategy


class BestOfN(Strategy):
    def horizon(self, number: int) -> int:
        return max(0, number + 1 - AHEAD)

    def propose(self, number: int, tree: Tree) -> Proposal:
        return Proposal("draft")
