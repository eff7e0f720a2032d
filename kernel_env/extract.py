"""Finds the submission in a model's answer: bare code, or code inside Markdown fences.

One pass over the lines, without regular expressions that could backtrack. A fence line inside a
triple-quoted Python string is text, not a fence. The result is always a slice of the answer (less the
indentation of an indented fence); whether it is valid Python is for the static checks to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_DEFINES = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_TOKEN = re.compile(r"\"\"\"|'''|\\.|[\"'#]", re.DOTALL)


@dataclass(frozen=True)
class _Fence:
    """A line that opens or closes a fence: `mark` is its run of backticks or tildes."""

    indent: int
    mark: str
    tag: str

    def closes(self, opener: _Fence) -> bool:
        """As in CommonMark: same character, at least as long, no tag, at most three columns deeper."""
        return (
            not self.tag
            and self.mark[0] == opener.mark[0]
            and len(self.mark) >= len(opener.mark)
            and self.indent <= opener.indent + 3
        )

    def restarts(self, opener: _Fence) -> bool:
        """A tagged opener inside a fence: the fence around it was never closed, or wraps this one."""
        return bool(self.tag) and self.mark[0] == "`" and self.indent <= opener.indent + 3


@dataclass
class _Block:
    """The lines of one fence, or (`opener` is None) those before the first fence."""

    opener: _Fence | None
    lines: list[str] = field(default_factory=list)

    def ends_at(self, fence: _Fence) -> bool:
        return self.opener is None or fence.closes(self.opener) or fence.restarts(self.opener)

    def text(self) -> str:
        indent = self.opener.indent if self.opener else 0
        return "".join(_dedented(line, indent) + "\n" for line in self.lines)


def extract_code(text: str) -> str:
    """The code in `text`: the last fence that defines `ModelNew`, else code before the first fence that
    defines it, else the last fence, else `text` itself, unchanged."""
    # Bare code, the usual case: its strings need not be read to find that nothing in it is a fence.
    if "```" not in text and "~~~" not in text:
        return text
    lead, fenced = _blocks(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    if not fenced:
        return text
    codes = [block.text() for block in fenced]
    for code in reversed(codes):
        if _DEFINES.search(code):
            return code
    bare = lead.text()
    return bare if _DEFINES.search(bare) else codes[-1]


def _blocks(lines: list[str]) -> tuple[_Block, list[_Block]]:
    """The lines before the first fence, and the fences in order."""
    lead = _Block(opener=None)
    fenced: list[_Block] = []
    block: _Block | None = lead
    position, strings = 0, True
    while position < len(lines):
        if block is None:
            fence = _fence(lines[position])
            position += 1
        else:
            end = _end_of(block, lines, position, strings)
            strings = strings and not end.unbalanced
            block.lines = lines[position : end.position]
            fence = end.fence
            position = end.position + 1
            if fence and block.opener and fence.closes(block.opener):
                fence = None
        block = _Block(opener=fence) if fence else None
        if block:
            fenced.append(block)
    return lead, fenced


@dataclass(frozen=True)
class _End:
    position: int
    fence: _Fence | None
    unbalanced: bool = False


def _end_of(block: _Block, lines: list[str], start: int, strings: bool) -> _End:
    """Where `block`, whose lines begin at `start`, ends.

    A string that is still open at the end of the text shows that the quotes were not Python's: then the
    first fence line that they hid counts, and the caller stops reading strings.
    """
    quote = ""
    hidden: _End | None = None
    for position in range(start, len(lines)):
        fence = _fence(lines[position])
        if fence and block.ends_at(fence):
            if not quote:
                return _End(position, fence)
            hidden = hidden or _End(position, fence, unbalanced=True)
        if strings:
            quote = _open_quote(lines[position], quote)
    if quote and hidden:
        return hidden
    return _End(len(lines), None)


def _fence(line: str) -> _Fence | None:
    body = line.lstrip(" \t")
    if not body.startswith(("```", "~~~")):
        return None
    rest = body.lstrip(body[0])
    if body[0] == "`" and "`" in rest:
        return None
    return _Fence(indent=len(line) - len(body), mark=body[: len(body) - len(rest)], tag=rest.strip())


def _open_quote(line: str, quote: str) -> str:
    """The triple quote still open after `line`, given the one open before it; "" for none."""
    single = ""
    for match in _TOKEN.finditer(line):
        token = match.group()
        if quote:
            quote = "" if token == quote else quote
        elif single:
            single = "" if token[0] == single else single
        elif token in ('"""', "'''"):
            quote = token
        elif token == "#":
            break
        elif token in ('"', "'"):
            single = token
    return quote


def _dedented(line: str, indent: int) -> str:
    blank = len(line) - len(line.lstrip(" \t"))
    return line[min(blank, indent) :]
