"""Python text to its syntax tree, one text at a time in a process.

Two threads that parse at once can make CPython lose count of its own recursion depth, and one of them gets a
`SystemError` (seen in 3.11). Warnings are off, as of odd escapes, frequent in C++ inside plain strings: they are
no news to whoever sent the text, and turning them off is not safe with threads either.
"""

from __future__ import annotations

import ast
import threading
import warnings

_ONE = threading.Lock()


def parse(text: str) -> ast.Module:
    """Raises what `ast.parse` raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)
