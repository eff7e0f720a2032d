"""An exception of a submission as text for a model to read.

Only the submission's own frames are shown, with its own line numbers; paths of this host are cut out; the
text is capped. Compiler output keeps the lines around each error.
"""

from __future__ import annotations

import re
import traceback

LIMIT = 4000
NAME = "submission.py"

_ERROR_LINE = re.compile(r"(\berror\b[^:\n]{0,24}:|undefined reference|undefined symbol|ptxas fatal)")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+([\w.+@-]+)")


def describe(error: BaseException, path: str) -> str:
    """`Type: message`, then where in the submission it happened; at most `LIMIT` characters."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return clip(_syntax(error))
    head = f"{type(error).__name__}: {_message(error)}"
    return clip("\n".join([shorten(head), *_own_frames(error, path)]))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the submission's own __str__ may raise anything
        return "(the exception's text could not be read)"


def _syntax(error: SyntaxError) -> str:
    lines = [f"{type(error).__name__}: {error.msg} (line {error.lineno})"]
    if error.text:
        text = error.text.rstrip("\n")[:200]
        lines += [f"    {text}", "    " + " " * max((error.offset or 1) - 1, 0) + "^"]
    return "\n".join(lines)


def _own_frames(error: BaseException, path: str) -> list[str]:
    frames = [f for f in traceback.extract_tb(error.__traceback__, limit=-50) if f.filename == path]
    return [f"  line {frame.lineno}, in {frame.name}: {frame.line or ''}"[:300] for frame in frames[-6:]]


def compiler_errors(output: str) -> str:
    """The lines of a build log that say what is wrong, each with the two that follow it."""
    lines = output.splitlines()
    wanted: list[str] = []
    last = -1
    for number, line in enumerate(lines):
        if _ERROR_LINE.search(line):
            for index in range(max(number, last + 1), min(number + 3, len(lines))):
                wanted.append(lines[index])
                last = index
        if len(wanted) > 60:
            break
    return clip(shorten("\n".join(wanted or lines[-20:])))


def shorten(text: str) -> str:
    """Absolute paths become their last part."""
    return _PATH.sub(r"\1", text)


def clip(text: str, limit: int = LIMIT) -> str:
    """Cut the middle out of a long text and say so."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"
