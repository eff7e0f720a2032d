"""The interface of strategies and what they share: rounds, repairs, chance."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod

from ..config import Search
from ..tree import Node, Proposal, Tree

AHEAD = 64  # candidates that are proposed before any of them is settled

DIRECTIONS = (
    "move less memory: fuse passes, read and write each element once",
    "use the memory better: coalesced, vectorised accesses, other tile shapes",
    "keep the device busier: block size, warps, stages, occupancy, work for each program",
    "do less arithmetic: an algebraic identity, a cheaper algorithm, what need not be computed",
    "spend less around the kernels: fewer launches, no needless copies or allocations",
    "use the hardware's units: matrix units where the tolerance allows, reductions within a warp",
)


class Strategy(ABC):
    def __init__(self, search: Search) -> None:
        self.search = search

    @abstractmethod
    def horizon(self, number: int) -> int:
        """How many nodes must be settled before candidate `number` is proposed: never falls as `number` rises."""

    @abstractmethod
    def propose(self, number: int, tree: Tree) -> Proposal:
        """The candidate of this number; `tree` holds the first `horizon(number)` nodes."""

    def chance(self, number: int) -> random.Random:
        """The same draws for the same candidate of a run with the same seed."""
        digest = hashlib.sha256(f"{self.search.seed}\n{number}".encode()).digest()
        return random.Random(int.from_bytes(digest[:8], "big"))

    def expand(self, node: Node, number: int, others: tuple[int, ...] = (), island: int = 0) -> Proposal:
        """Another version of `node`: faster where it is verified, else repaired."""
        if not node.verified:
            return Proposal("repair", node.id, island=island)
        direction = DIRECTIONS[number % len(DIRECTIONS)]
        return Proposal("refine", node.id, direction, tuple(o for o in others if o != node.id), island)

    def repairable(self, tree: Tree) -> list[Node]:
        """Broken programs, those first that got furthest, less those that repairs have not helped."""
        return [node for node in tree.broken() if tree.repairs(node) < self.search.repairs]


def rounds(number: int, first: int, size: int) -> int:
    """The horizon of candidates in rounds of `size`, after `first` that depend on nothing."""
    if number < first:
        return max(0, number + 1 - AHEAD)
    return number - (number - first) % size
