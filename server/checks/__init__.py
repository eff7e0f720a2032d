"""Static checks: refuses what can be told from the text of a submission, in milliseconds.

`check` reads the syntax tree and the C++ text inside it; it never imports or runs the code, and it answers
for any text, however hostile. It is there to explain honest mistakes early and to turn away the plainest
tricks. When unsure it lets pass: what runs is watched by the dispatch guard and judged by its results, so
a false alarm here would cost more than a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..outcome import BuildFailed, Rejected
from .compute import compute_in_forward
from .escapes import escapes
from .findings import Finding, rejection
from .imports import imports
from .kernels import kernels
from .model import model
from .native import native
from .program import Program, load

if TYPE_CHECKING:
    from kernel_env.models import Language

__all__ = ["check"]

_RULES: tuple[Callable[[Program], Iterator[Finding]], ...] = (
    model,
    imports,
    escapes,
    kernels,
    compute_in_forward,
    native,
)


def check(code: str, language: Language, max_bytes: int) -> Rejected | BuildFailed | None:
    """None if `code` may go on to the build.

    `Rejected` names the first rule that it breaks, with the submission's own line; a syntax error is a
    `BuildFailed`, since a compiler found it. Code of more than `max_bytes` bytes of UTF-8 is refused unread.
    Never raises.
    """
    program = load(code, language, max_bytes)
    if not isinstance(program, Program):
        return program
    for rule in _RULES:
        findings = sorted(set(rule(program)))
        if findings:
            return rejection(findings, program.lines)
    return None
