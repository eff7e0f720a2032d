"""Static checks: refuses what can be told from the text of a submission, in milliseconds.

`check` reads the syntax tree and the C++ text inside it; it never imports or runs the code, and it answers
for any text, however hostile. It is there to explain honest mistakes early and to turn away the plainest
tricks. When unsure it lets pass: what runs is watched by the dispatch guard and judged by its results, so
a false alarm here would cost more than a miss.
"""

from __future__ import annotations

from .. import languages
from ..outcome import BuildFailed, Rejected
from .compute import compute_in_forward
from .escapes import escapes
from .findings import rejection
from .imports import imports
from .model import model
from .native import native
from .program import Program, load

__all__ = ["check"]

_FIRST: tuple[languages.Rule, ...] = (model, imports, escapes)
_LAST: tuple[languages.Rule, ...] = (compute_in_forward, native)


def check(code: str, language: str, max_bytes: int) -> Rejected | BuildFailed | None:
    """None if `code` may go on to the build.

    `Rejected` names the first rule that it breaks, with the submission's own line; a syntax error is a
    `BuildFailed`, since a compiler found it. Code of more than `max_bytes` bytes of UTF-8 is refused unread.
    Raises `LanguageError` for an unknown language, and nothing else.
    """
    spoken = languages.get(language)
    program = load(code, spoken, max_bytes)
    if not isinstance(program, Program):
        return program
    for rule in (*_FIRST, *spoken.rules, *_LAST):
        findings = sorted(set(rule(program)))
        if findings:
            return rejection(findings, program.lines)
    return None
