"""Reads a submission into a `Program`: its syntax tree, indexed by scope.

Any text gives a `Program`, a `Rejected` or a `BuildFailed`; nothing here raises. CPython's parser bounds its
own nesting; everything after it walks iteratively, so that deep trees cannot exhaust the stack.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernel_env.syntax import parse

from ..outcome import BuildFailed, Rejected
from .findings import short
from .jit import mark_kernels
from .scopes import Scope, index

if TYPE_CHECKING:
    from ..languages import Language

# Far above any honest class, and low enough that no text can make lookups slow.
_BASES_CAP = 32


@dataclass
class Program:
    """A parsed submission. `scopes` holds every scope, outer before inner; the first is the module's."""

    language: Language
    lines: list[str]
    tree: ast.Module
    scopes: list[Scope]
    classes: dict[str, Scope] = field(default_factory=dict)
    functions: dict[str, Scope] = field(default_factory=dict)
    _lineages: dict[Scope, list[Scope]] = field(default_factory=dict)
    _methods: dict[Scope, dict[str, Scope]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for scope in self.root.children:
            if isinstance(scope.node, ast.ClassDef):
                self.classes[scope.node.name] = scope
            elif isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[scope.node.name] = scope

    @property
    def root(self) -> Scope:
        return self.scopes[0]

    def base_classes(self, scope: Scope) -> list[Scope]:
        """`scope` (a class of the file's top level) and those of its bases that the file defines."""
        found = self._lineages.get(scope)
        if found is not None:
            return found
        found = [scope]
        for current in found:
            assert isinstance(current.node, ast.ClassDef)
            known = [self.classes.get(base.id) for base in current.node.bases if isinstance(base, ast.Name)]
            found += [base for base in known[:_BASES_CAP] if base is not None and base not in found]
            if len(found) > _BASES_CAP:
                break
        self._lineages[scope] = found
        return found

    def method(self, scope: Scope, name: str) -> Scope | None:
        """The method `name` of a class, its own or from a base in the file."""
        for current in self.base_classes(scope):
            own = self._methods.get(current)
            if own is None:
                own = self._methods[current] = {child.name: child for child in current.children}
            if name in own:
                return own[name]
        return None


def load(code: str, language: Language, max_bytes: int) -> Program | Rejected | BuildFailed:
    try:
        size = len(code.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        return Rejected(rule="encoding", message=f"line {line}: a lone surrogate is not text; send UTF-8")
    if size > max_bytes:
        return Rejected(
            rule="size", message=f"the code has {size} bytes; the limit is {max_bytes}: send the kernel only"
        )
    if "\0" in code:
        line = code.count("\n", 0, code.index("\0")) + 1
        return Rejected(rule="encoding", message=f"line {line}: a NUL byte is not allowed in source code")
    try:
        tree = parse(code)
    except SyntaxError as error:
        return BuildFailed(message=_syntax_message(error))
    except ValueError as error:
        return BuildFailed(message=short(f"ValueError: {error}", 200))
    except (RecursionError, MemoryError):
        return Rejected(rule="nesting", message="the code is nested too deeply to parse: write it flatter")
    scopes = index(tree)
    mark_kernels(scopes, language.decorators)
    return Program(language, code.split("\n"), tree, scopes)


def _syntax_message(error: SyntaxError) -> str:
    """Kind, line, the line itself and a caret under the column, all trimmed."""
    kind = type(error).__name__
    if error.lineno is None:
        return f"{kind}: {short(error.msg, 200)}"
    message = f"{kind} on line {error.lineno}: {short(error.msg, 200)}"
    text = (error.text or "").rstrip("\n")
    if not text.strip():
        return message
    column = max((error.offset or 1) - 1, 0)
    start = max(0, column - 60)
    window = text[start : start + 100]
    lead = len(window) - len(window.lstrip())
    caret = " " * max(column - start - lead, 0) + "^"
    return f"{message}\n    {window.strip()}\n    {caret}"
