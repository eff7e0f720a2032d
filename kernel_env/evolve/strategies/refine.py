"""Drafts, repairs until one is verified, then mostly better versions of the best: the default.

In rounds of `width`. While nothing is verified, each round repairs what got furthest. Afterwards most candidates
start from the best, some repair what failed on the way, and some start from another verified program.
"""

from __future__ import annotations

from ..tree import Node, Proposal, Tree
from .base import Strategy, rounds

REPAIR = 0.2
ELSEWHERE = 0.15


class Refine(Strategy):
    def horizon(self, number: int) -> int:
        return rounds(number, self.search.drafts, self.search.width)

    def propose(self, number: int, tree: Tree) -> Proposal:
        if number < self.search.drafts:
            return Proposal("draft")
        usable = tree.usable()
        if not usable:
            return self._towards_the_first(number, tree)
        best = tree.nodes[tree.best] if tree.best is not None else usable[0]
        chance = self.chance(number)
        drawn = chance.random()
        broken = [node for node in self.repairable(tree) if node.parent == best.id and not tree.children(node.id)]
        if drawn < REPAIR and broken:
            return self.expand(broken[-1], number)
        rest = [node for node in usable if node.id != best.id]
        if REPAIR <= drawn < REPAIR + ELSEWHERE and rest:
            return self.expand(rest[chance.randrange(min(3, len(rest)))], number, others=(best.id,))
        return self.expand(best, number, others=_second(rest))

    def _towards_the_first(self, number: int, tree: Tree) -> Proposal:
        """The places of a round go to the broken programs in turn; a new draft where there is none."""
        broken = self.repairable(tree)
        place = (number - self.search.drafts) % self.search.width
        return self.expand(broken[place], number) if place < len(broken) else Proposal("draft")


def _second(rest: list[Node]) -> tuple[int, ...]:
    return (rest[0].id,) if rest else ()
