"""Tables as text: the first column to the left, the others to the right. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return "\n".join(_line(row, widths) for row in [header, *rows])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return "  ".join(cells).rstrip()


def digits(value: float | None, count: int = 4) -> str:
    """With `count` significant digits, never in scientific notation."""
    if value is None:
        return NONE
    exponent = int(f"{value:.{count - 1}e}".rpartition("e")[2])
    return f"{value:.{max(0, count - 1 - exponent)}f}"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.2f}"


def mark(value: bool | None) -> str:
    return NONE if value is None else "yes" if value else "no"
