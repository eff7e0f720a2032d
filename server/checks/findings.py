"""What a rule found, and how it is told to the author of the submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..outcome import Rejected

_LINE_CAP = 120
_ALSO_CAP = 5


@dataclass(frozen=True, order=True)
class Finding:
    """`line` is the submission's own, from 1; 0 speaks of the whole file."""

    line: int
    rule: str
    message: str


def rejection(findings: Sequence[Finding], lines: Sequence[str]) -> Rejected:
    """The first finding in full, with its source line; further ones of the same rule by line number."""
    first = findings[0]
    if not 1 <= first.line <= len(lines):
        return Rejected(rule=first.rule, message=first.message)
    message = f"line {first.line}: {first.message}\n    {short(lines[first.line - 1].strip(), _LINE_CAP)}"
    others = sorted({f.line for f in findings if f.rule == first.rule} - {first.line})
    if others:
        listed = ", ".join(str(line) for line in others[:_ALSO_CAP])
        more = f" and {len(others) - _ALSO_CAP} more" if len(others) > _ALSO_CAP else ""
        message += f"\nalso on line{'s' if len(others) > 1 else ''} {listed}{more}"
    return Rejected(rule=first.rule, message=message)


def short(text: str, limit: int = 60) -> str:
    """`text` on one line of at most `limit` characters."""
    flat = text[: limit + 1].replace("\n", " ")
    return flat if len(text) <= limit else flat[: limit - 3] + "..."
