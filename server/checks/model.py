"""`ModelNew`: a module-level class that is an `nn.Module` and has a `forward`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding, short
from .program import Program
from .scopes import Scope


def model(program: Program) -> Iterator[Finding]:
    scope = program.classes.get("ModelNew")
    if scope is None:
        yield _missing(program)
        return
    assert isinstance(scope.node, ast.ClassDef)
    line = scope.node.lineno
    classes = program.base_classes(scope)
    bases = [base for current in classes for base in _bases(current) if not _in_file(program, base)]
    undefined = [base for base in bases if _undefined(program.root, base)]
    if undefined:
        name = short(ast.unparse(undefined[0]))
        yield Finding(
            line,
            "model-base",
            f"`{name}` is not defined in this code (the reference is not available to it):"
            " derive ModelNew from torch.nn.Module",
        )
    elif not any(_is_module(program.root, base) for base in bases):
        yield Finding(line, "model-base", "ModelNew must be a torch.nn.Module: class ModelNew(nn.Module)")
    elif not any(_has_forward(current) for current in classes) and not any(_unknown(program, b) for b in bases):
        yield Finding(line, "model-forward", "ModelNew needs a forward method that takes the task's inputs")


def _missing(program: Program) -> Finding:
    for scope in program.scopes[1:]:
        if scope.name == "ModelNew":
            return Finding(
                getattr(scope.node, "lineno", 0),
                "model-missing",
                "ModelNew must be a class at the top level of the file",
            )
    return Finding(
        0,
        "model-missing",
        "the code defines no class ModelNew: add `class ModelNew(nn.Module)` with a forward",
    )


def _bases(scope: Scope) -> list[ast.expr]:
    assert isinstance(scope.node, ast.ClassDef)
    return scope.node.bases


def _in_file(program: Program, base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and base.id in program.classes


def _undefined(root: Scope, base: ast.expr) -> bool:
    bound = isinstance(base, ast.Name) and (base.id in root.values or base.id in root.imports)
    return isinstance(base, ast.Name) and not bound and root.lookup(base.id) is None


def _unknown(program: Program, base: ast.expr) -> bool:
    """A base whose class cannot be told from the text, such as the result of a call."""
    return program.root.resolve(base) is None


def _is_module(root: Scope, base: ast.expr) -> bool:
    """True for torch.nn's classes, and for a base that cannot be told (the build will tell)."""
    path = root.resolve(base)
    return path is None or (path.startswith("torch.nn.") and path.split(".")[-1][0].isupper())


def _has_forward(scope: Scope) -> bool:
    return "forward" in scope.values or any(child.name == "forward" for child in scope.children)
