"""Several populations that evolve apart and now and then see their neighbour's best.

Each round has one candidate for each island. A parent is drawn from its island by rank; a second program of the
island is shown beside it. Every `migrate_every` rounds the best of the island before counts as the island's own.
"""

from __future__ import annotations

from ..tree import Node, Proposal, Tree
from .base import Strategy, rounds

PRESSURE = 2.0  # the best of k is drawn as its parent with k ** -PRESSURE less weight a rank


class Islands(Strategy):
    def horizon(self, number: int) -> int:
        return rounds(number, self._first(), self.search.width)

    def propose(self, number: int, tree: Tree) -> Proposal:
        island = number % self.search.width
        if number < self._first():
            return Proposal("draft", island=island)
        ranked = self._population(number, tree, island)
        if not ranked:
            return Proposal("draft", island=island)
        chance = self.chance(number)
        weights = [(rank + 1.0) ** -PRESSURE for rank in range(len(ranked))]
        parent = chance.choices(ranked, weights)[0]
        others = tuple(node.id for node in ranked[:2] if node.verified and node is not parent)[:1]
        return self.expand(parent, number, others, island)

    def _first(self) -> int:
        """Drafts, the same number for each island."""
        return -(-self.search.drafts // self.search.width) * self.search.width

    def _population(self, number: int, tree: Tree, island: int) -> list[Node]:
        """The island's programs, the best first, with a guest in a round of migration."""
        usable = tree.usable()
        own = [node for node in usable if node.proposal.island == island]
        generation = number // self.search.width
        if generation % self.search.migrate_every == 0 and self.search.width > 1:
            neighbour = (island - 1) % self.search.width
            guests = [node for node in usable if node.proposal.island == neighbour]
            own = sorted([*own, *guests[:1]], key=lambda node: (-(node.score or 0.0), node.id))
        return own or [node for node in self.repairable(tree) if node.proposal.island == island]
