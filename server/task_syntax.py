"""Does a text have KernelBench's form? Decided on its syntax tree; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from kernel_env.syntax import parse

from .extras import ExtrasError, declared

_FUNCTIONS = ("get_inputs", "get_init_inputs")


def fault_of(source: str) -> str | None:
    """Why the text is no task, or None when it is one."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return f"does not parse: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error or type(error).__name__}"
    return _missing(tree) or _extras_fault(tree)


def _extras_fault(tree: ast.Module) -> str | None:
    try:
        declared(tree)
    except ExtrasError as error:
        return str(error)
    return None


def _missing(tree: ast.Module) -> str | None:
    statements = list(_module_level(tree.body))
    classes = {node.name for node in statements if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in statements if isinstance(node, ast.FunctionDef)}
    missing = [] if "Model" in classes else ["class Model"]
    missing += [f"function {name}" for name in _FUNCTIONS if name not in functions]
    return f"lacks {', '.join(missing)}" if missing else None


def _module_level(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes that run on import, those inside `if`, `try` and `with` included."""
    for node in nodes:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _module_level(ast.iter_child_nodes(node))
