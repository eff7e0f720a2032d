"""Blanks what is not code out of C++ text, keeping every newline in its place.

Comments, strings, character constants and include directives (a header that nothing uses does no harm) go.
A single pass that never looks back.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      (?P<comment>//(?:[^\\\n]|\\.|\\\n)*)
    | (?P<block>/\*)
    | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\()
    | (?P<include>\#[ \t]*include[ \t]*(?:<[^>\n]{0,200}>|"[^"\n]{0,200}"))
    | (?P<word>\w(?:\w|'(?=\w))*)
    | (?P<string>"(?:[^"\\\n]|\\.|\\\n)*"?)
    | (?P<character>'(?:[^'\\\n]|\\.)*'?)
    """,
    re.VERBOSE,
)


def code_only(text: str) -> str:
    """`text` with all else replaced by spaces. An unterminated comment or raw string reaches to the end."""
    pieces: list[str] = []
    position = 0
    while match := _TOKEN.search(text, position):
        pieces.append(text[position : match.start()])
        kind, end = match.lastgroup, match.end()
        if kind == "word":
            pieces.append(match.group())
        else:
            end = _end(text, match)
            pieces.append(_blank(text[match.start() : end]))
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _end(text: str, match: re.Match[str]) -> int:
    if match["block"]:
        closing = "*/"
    elif match["raw"]:
        closing = f'){match["delimiter"]}"'
    else:
        return match.end()
    found = text.find(closing, match.end())
    return len(text) if found < 0 else found + len(closing)


def _blank(text: str) -> str:
    return " " + "\n" * text.count("\n") + " "
