"""From a model's answer to a program: thinking is dropped, the fence is chosen by content, duplicates are known.

Nothing here imports or runs a program. Two programs are the same if their syntax trees are, docstrings and
positions aside; texts that do not parse are compared as they are.
"""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass

from kernel_env.extract import extract_code
from kernel_env.syntax import parse

IDEA_CAP = 300
_THOUGHTS = (("<think>", "</think>"), ("[unused16]", "[unused17]"))
_DEFINES = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_IDEA = re.compile(r"^[ \t>*_#-]*idea[*_ ]*:[*_ ]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """What an answer holds: a program, or the `fault` that it has none. `idea` is "" where it states none."""

    code: str | None
    idea: str
    fault: str = ""


def read_answer(text: str, finish_reason: str | None) -> Answer:
    """The last fenced block that defines `ModelNew`; an answer cut at the token limit counts only if it parses."""
    said = without_thoughts(text)
    match = _IDEA.search(said)
    idea = match[1].strip()[:IDEA_CAP] if match else ""
    code = extract_code(said)
    defines = _DEFINES.search(code) is not None
    cut = finish_reason == "length"
    if cut and not (defines and parses(code)):
        return Answer(None, idea, "The answer was cut off at the token limit before the program was complete.")
    if not defines:
        return Answer(None, idea, "The answer holds no program that defines `class ModelNew`.")
    return Answer(code, idea)


def without_thoughts(text: str) -> str:
    """`text` less what stands between a thinking model's marks; an open mark takes the rest with it."""
    for begin, end in _THOUGHTS:
        while begin in text:
            head, _, rest = text.partition(begin)
            text = head + rest.partition(end)[2]
        # Some servers strip the opening mark alone.
        text = text.rpartition(end)[2]
    return text


def key_of(code: str) -> str:
    """Identifies a program: 16 hex digits, the same for all that differ in layout, comments, docstrings alone."""
    tree = _tree(code)
    normal = code.strip() if tree is None else ast.dump(_bare(tree))
    return hashlib.sha256(normal.encode(errors="surrogatepass")).hexdigest()[:16]


def parses(code: str) -> bool:
    return _tree(code) is not None


def _tree(code: str) -> ast.Module | None:
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and len(node.body) > 1:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del node.body[0]
    return tree
