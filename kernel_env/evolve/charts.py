"""The two pictures of a report, as SVG: speedup over candidates, and the lineage. Sizes follow from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 16, 48
ROW, INDENT, LABEL = 24, 22, 30
IDEA_CAP = 90


@dataclass(frozen=True)
class Mark:
    """A candidate as it is drawn. `kind` is its class: best, verified, failed, quarantined, duplicate, none."""

    id: int
    parent: int | None
    kind: str
    score: float | None
    best_so_far: float | None
    outcome: str
    idea: str


@dataclass(frozen=True)
class _Frame:
    """From numbers and speedups to places in the picture."""

    count: int
    low: float
    high: float

    def x(self, index: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / max(self.count, 1)

    def y(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)


def speedups(marks: Sequence[Mark]) -> str:
    """Each candidate's speedup on a logarithmic scale, failures on a line below, the confirmed best as steps."""
    values = [mark.score for mark in marks if mark.score]
    frame = _Frame(len(marks), min([0.5, *values]) / 1.1, max([2.0, *values]) * 1.1)
    floor = HEIGHT - BOTTOM + 16
    parts = [_axis(frame), _steps(marks, frame)]
    for index, mark in enumerate(marks):
        at = frame.y(mark.score) if mark.score else floor
        parts.append(
            f'<a href="#n{mark.id}"><circle class="{mark.kind}" cx="{frame.x(index):.1f}" cy="{at:.1f}" r="5">'
            f"<title>{escape(_title(mark))}</title></circle></a>"
        )
    step = max(1, -(-len(marks) // 12))
    for index in range(0, len(marks), step):
        parts.append(_tick(frame.x(index), HEIGHT - 8, str(index), "middle"))
    return _svg(WIDTH, HEIGHT, "Speedup of each candidate", parts)


def _title(mark: Mark) -> str:
    return f"candidate {mark.id}: {mark.outcome}. {mark.idea}"


def _axis(frame: _Frame) -> str:
    lines = []
    exponents = range(math.ceil(math.log2(frame.low)), math.floor(math.log2(frame.high)) + 1)
    step = max(1, len(exponents) // 8)
    for exponent in exponents:
        if exponent % step:
            continue
        at = frame.y(2.0**exponent)
        kind = "grid" if exponent else "one"
        lines.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        lines.append(_tick(LEFT - 8, at + 4, f"{2.0**exponent:g}x", "end"))
    lines.append(_tick(LEFT - 8, HEIGHT - BOTTOM + 20, "none", "end"))
    return "".join(lines)


def _tick(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _steps(marks: Sequence[Mark], frame: _Frame) -> str:
    points: list[str] = []
    last: float | None = None
    for index, mark in enumerate(marks):
        if not mark.best_so_far:
            continue
        at = frame.y(mark.best_so_far)
        if last is not None:
            points.append(f"{frame.x(index):.1f},{last:.1f}")
        points.append(f"{frame.x(index):.1f},{at:.1f}")
        last = at
    return f'<polyline class="steps" points="{" ".join(points)}"/>' if points else ""


def lineage(marks: Sequence[Mark]) -> str:
    """One row for each candidate, children below their parents, to the right of them."""
    rows = _rows(marks)
    place = {mark.id: (index, depth) for index, (mark, depth) in enumerate(rows)}
    height = ROW * len(rows) + 8
    deepest = max((depth for _, depth in rows), default=0)
    parts = []
    for mark, _ in rows:
        row, depth = place[mark.id]
        at_x, at_y = 12 + INDENT * depth, ROW * row + ROW / 2 + 4
        if mark.parent is not None:
            from_row, from_depth = place[mark.parent]
            from_x, from_y = 12 + INDENT * from_depth, ROW * from_row + ROW / 2 + 4
            parts.append(f'<path class="edge" d="M{from_x},{from_y} V{at_y} H{at_x}"/>')
    for mark, _ in rows:
        row, depth = place[mark.id]
        at_x, at_y = 12 + INDENT * depth, ROW * row + ROW / 2 + 4
        parts.append(
            f'<a href="#n{mark.id}"><circle class="{mark.kind}" cx="{at_x}" cy="{at_y}" r="6"/>'
            f'<text class="row" x="{at_x + 14}" y="{at_y + 4}">{mark.id}'
            f'<tspan class="outcome" dx="8">{escape(mark.outcome)}</tspan>'
            f'<tspan dx="8">{escape(mark.idea[:IDEA_CAP])}</tspan></text>'
            f"<title>{escape(_title(mark))}</title></a>"
        )
    return _svg(max(WIDTH, 12 + INDENT * deepest + 7 * (IDEA_CAP + LABEL)), height, "Lineage", parts)


def _rows(marks: Sequence[Mark]) -> list[tuple[Mark, int]]:
    """Depth first, without recursion: a lineage may be as deep as the run is long."""
    children: dict[int | None, list[Mark]] = {}
    for mark in marks:
        children.setdefault(mark.parent, []).append(mark)
    found: list[tuple[Mark, int]] = []
    waiting = [(mark, 0) for mark in reversed(children.get(None, []))]
    while waiting:
        mark, depth = waiting.pop()
        found.append((mark, depth))
        waiting += [(child, depth + 1) for child in reversed(children.get(mark.id, []))]
    return found


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
