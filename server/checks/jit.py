"""Which functions a compiler of kernels reads: their operators are its own, not PyTorch's."""

from __future__ import annotations

import ast

from .scopes import Scope

JIT = ("triton.jit", "triton.experimental.gluon.jit")


def mark_kernels(scopes: list[Scope], decorators: tuple[str, ...] = ()) -> None:
    """Set `kernel` on functions that Triton compiles or one of `decorators` makes kernels, and on all inside."""
    makers = (*JIT, *decorators)
    for scope in scopes:
        if isinstance(scope.node, ast.FunctionDef):
            scope.kernel = is_made(scope.node, scope, makers) or _takes_constexpr(scope)
        scope.kernel = scope.kernel or (scope.parent is not None and scope.parent.kernel)
    wrapped = {name for scope in scopes for node in scope.nodes if (name := _wrapped(node, scope, makers))}
    for scope in scopes:
        scope.kernel = scope.kernel or scope.name in wrapped


def is_made(node: ast.FunctionDef, scope: Scope, makers: tuple[str, ...]) -> bool:
    """Whether one of `makers` decorates the function."""
    outer = scope.parent or scope
    targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(outer.resolve(target) in makers for target in targets)


def _takes_constexpr(scope: Scope) -> bool:
    return any(
        parameter.annotation is not None
        and (scope.resolve(parameter.annotation) or "").endswith("language.constexpr")
        for parameter in scope.parameters()
    )


def _wrapped(node: ast.AST, scope: Scope, makers: tuple[str, ...]) -> str | None:
    """`f` of `triton.jit(f)`."""
    match node:
        case ast.Call(args=[ast.Name(id=name)]) if scope.resolve(node.func) in makers:
            return name
        case _:
            return None
