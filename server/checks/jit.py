"""Which functions Triton compiles: their operators are Triton's, not PyTorch's."""

from __future__ import annotations

import ast

from .scopes import Scope

JIT = ("triton.jit", "triton.experimental.gluon.jit")


def mark_triton_kernels(scopes: list[Scope]) -> None:
    """Set `kernel` on the functions that Triton compiles, and on all inside them."""
    for scope in scopes:
        if isinstance(scope.node, ast.FunctionDef):
            scope.kernel = _is_jitted(scope.node, scope) or _takes_constexpr(scope)
        scope.kernel = scope.kernel or (scope.parent is not None and scope.parent.kernel)
    wrapped = {name for scope in scopes for node in scope.nodes if (name := _wrapped(node, scope))}
    for scope in scopes:
        scope.kernel = scope.kernel or scope.name in wrapped


def _is_jitted(node: ast.FunctionDef, scope: Scope) -> bool:
    outer = scope.parent or scope
    targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(outer.resolve(target) in JIT for target in targets)


def _takes_constexpr(scope: Scope) -> bool:
    return any(
        parameter.annotation is not None
        and (scope.resolve(parameter.annotation) or "").endswith("language.constexpr")
        for parameter in scope.parameters()
    )


def _wrapped(node: ast.AST, scope: Scope) -> str | None:
    """`f` of `triton.jit(f)`."""
    match node:
        case ast.Call(args=[ast.Name(id=name)]) if scope.resolve(node.func) in JIT:
            return name
        case _:
            return None
