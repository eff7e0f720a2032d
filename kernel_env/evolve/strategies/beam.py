"""Generations: the `width` best programs so far have `branch` candidates each.

Verified programs go before broken ones, faster before slower, and those that got further before others.
"""

from __future__ import annotations

from ..tree import Node, Proposal, Tree
from .base import Strategy, rounds


class Beam(Strategy):
    def horizon(self, number: int) -> int:
        search = self.search
        return rounds(number, max(search.drafts, search.width), search.width * search.branch)

    def propose(self, number: int, tree: Tree) -> Proposal:
        first = max(self.search.drafts, self.search.width)
        if number < first:
            return Proposal("draft")
        kept = self._kept(tree)
        place = (number - first) % (self.search.width * self.search.branch)
        return self.expand(kept[place % len(kept)], number) if kept else Proposal("draft")

    def _kept(self, tree: Tree) -> list[Node]:
        return [*tree.usable(), *self.repairable(tree)][: self.search.width]
