"""How a run is shown while it goes on: a table that is kept up to date on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .console import err

if TYPE_CHECKING:
    from kernel_env.evolve.run import Run
    from kernel_env.evolve.tree import Node

RECENT = 8
REFRESH = 4


class View:
    """The table: best, what goes on, failures by stage, spending, time left, and the newest candidates."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._live = Live(console=err, refresh_per_second=REFRESH, get_renderable=self._table, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, run: Run) -> None:
        self._run = run

    def _table(self) -> Group | Text:
        run = self._run
        if run is None:
            return Text("Starting the evaluator ...")
        summary = Table(box=None, show_header=False, pad_edge=False)
        for name, value in facts(run):
            summary.add_row(Text(name, "dim"), Text(value))
        recent = Table("", "", "", box=None, pad_edge=False, show_header=False)
        for node in run.tree.nodes[-RECENT:]:
            recent.add_row(Text(str(node.id), "dim"), told(node), Text(node.idea[:80], "dim"))
        return Group(summary, recent)


class Plain:
    """One line for each candidate that is settled."""

    def __init__(self) -> None:
        self._shown = 0

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, run: Run) -> None:
        if len(run.tree) < self._shown:  # another run: the control
            self._shown = 0
        for node in run.tree.nodes[self._shown :]:
            err.print(f"candidate {node.id} ({node.proposal.role}): {told(node).plain}  {node.idea}", markup=False)
        self._shown = len(run.tree)


def facts(run: Run) -> list[tuple[str, str]]:
    """Name and value of each line of the summary."""
    best = None if run.tree.best is None else run.tree.nodes[run.tree.best]
    failed = Counter("quarantined" if n.quarantine else n.stage for n in run.tree.nodes if not n.verified)
    spent = run.ledger.spent.to_dict()
    limits = run.ledger.limits
    return [
        ("best", f"candidate {best.id}: {told(best).plain}" if best else "none yet"),
        ("now", ", ".join(f"{count} {what}" for what, count in sorted(run.doing.items()) if count) or "settling"),
        ("failed", ", ".join(f"{count} at {stage}" for stage, count in failed.most_common()) or "none"),
        ("spent", ", ".join(_of(unit, value, getattr(limits, unit)) for unit, value in spent.items() if value)),
        ("time", _left(run)),
    ]


def told(node: Node) -> Text:
    """The outcome of a candidate in a few words."""
    if node.quarantine:
        return Text("quarantined", "magenta")
    if node.duplicate_of is not None:
        return Text(f"same as {node.duplicate_of}", "dim")
    if node.score is None:
        return Text(f"failed at {node.stage}", "red")
    text = f"{node.score:.3g}x" if node.score else "correct, not timed"
    confirmed = " confirmed" if node.confirmations else ""
    return Text(f"{text}{confirmed}", "bold green" if node.became_best else "green")


def _of(unit: str, value: float, limit: float | None) -> str:
    return f"{value:g} {unit}" if limit is None else f"{value:g} of {limit:g} {unit}"


def _left(run: Run) -> str:
    elapsed = time.monotonic() - run.began
    left = "" if run.terms.wall_s is None else f", {max(run.terms.wall_s - elapsed, 0.0):.0f} s left"
    return f"{elapsed:.0f} s{left}"
