"""The tree of a run: one node for each candidate, never removed, in the order of their ids.

Only settled nodes are in the tree, so that it is always a prefix of what an uninterrupted run has. A program that
was seen before makes its node a duplicate: it keeps its place in the lineage and is not evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .metrics import Metrics

Role = Literal["draft", "repair", "refine"]
STAGES = ("endpoint", "infrastructure", "answer", "failed", "format", "compile", "correctness", "timing", "passed")


@dataclass(frozen=True)
class Proposal:
    """What a strategy asks for: a `draft` from nothing, or another version of `parent`.

    `direction` is a hint for the idea; `others` are programs to show beside the parent's.
    """

    role: Role
    parent: int | None = None
    direction: str = ""
    others: tuple[int, ...] = ()
    island: int = 0


@dataclass
class Node:
    """`stage` is how far it got: the environment's, "answer" without a program, "endpoint" without an answer.

    `metrics` are those of the first evaluation, `confirmations` those in fresh processes afterwards. `score` is
    the confirmed speedup, or the first one where nothing was confirmed; 0 for a verified program without times,
    None for one that is not verified.
    """

    id: int
    proposal: Proposal
    stage: str
    feedback: str = ""
    idea: str = ""
    code: str | None = None
    key: str | None = None
    duplicate_of: int | None = None
    model: str = ""
    metrics: Metrics | None = None
    confirmations: list[Metrics] = field(default_factory=list)
    quarantine: str | None = None
    score: float | None = None
    became_best: bool = False

    @property
    def parent(self) -> int | None:
        return self.proposal.parent

    @property
    def verified(self) -> bool:
        return self.score is not None

    def summary(self) -> dict[str, Any]:
        """What the journal says of it."""
        return {
            "node": self.id,
            "role": self.proposal.role,
            "parent": self.parent,
            "others": list(self.proposal.others),
            "island": self.proposal.island,
            "idea": self.idea,
            "program": self.key,
            "duplicate_of": self.duplicate_of,
            "stage": self.stage,
            "quarantine": self.quarantine,
            "score": self.score,
            "best": self.became_best,
        }


class Tree:
    """`best` is the id of the confirmed best, None while there is none."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.best: int | None = None
        self.best_since = 0
        self.new_since = 0
        self._originals: dict[str, int] = {}
        self._children: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        if node.key is not None and node.duplicate_of is None and node.stage != "infrastructure":
            self._originals.setdefault(node.key, node.id)
            self.new_since = len(self.nodes)
        if node.parent is not None:
            self._children.setdefault(node.parent, []).append(node.id)

    def crown(self, node: int) -> None:
        self.best, self.best_since = node, len(self.nodes)

    def original(self, key: str) -> int | None:
        """The node that first had this program."""
        return self._originals.get(key)

    def children(self, node: int) -> list[Node]:
        return [self.nodes[child] for child in self._children.get(node, ())]

    def usable(self) -> list[Node]:
        """Verified programs, each once, the fastest first."""
        found = [node for node in self.nodes if node.verified and node.duplicate_of is None]
        return sorted(found, key=lambda node: (-(node.score or 0.0), node.id))

    def broken(self) -> list[Node]:
        """Programs that could be repaired, those that got furthest first, then those tried least."""
        fit = [
            node
            for node in self.nodes
            if not node.verified
            and node.duplicate_of is None
            and node.quarantine is None
            and node.stage not in ("endpoint", "infrastructure")
        ]
        return sorted(fit, key=lambda node: (-progress(node), len(self._children.get(node.id, ())), node.id))

    def repairs(self, node: Node) -> int:
        """How many repairs in a row led to this node."""
        count = 0
        while node.proposal.role == "repair" and node.parent is not None:
            count, node = count + 1, self.nodes[node.parent]
        return count


def progress(node: Node) -> int:
    return STAGES.index(node.stage) if node.stage in STAGES else STAGES.index("failed")
