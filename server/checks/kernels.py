"""The language's own kernel: it is there, and `ModelNew` leads to it.

"Leads to" is textual and lenient: a name counts as used where any code that `ModelNew` mentions, directly or
through other names, mentions it. Whether the kernel really runs is seen when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding
from .jit import JIT
from .program import Program
from .scopes import Scope

_LOADERS = ("torch.utils.cpp_extension.load_inline", "torch.utils.cpp_extension.load")


def triton(program: Program) -> Iterator[Finding]:
    jitted = [scope for scope in program.scopes if scope.kernel and scope.name]
    if not jitted:
        if not any(scope.resolve(node) in JIT for scope in program.scopes for node in _references(scope)):
            yield Finding(
                0, "kernel-missing", "there is no Triton kernel: write a function decorated with @triton.jit"
            )
        return
    used = mentioned_from(program, "ModelNew")
    kernel = jitted[0]
    if not any(scope.name in used for scope in jitted):
        yield Finding(
            getattr(kernel.node, "lineno", 0),
            "kernel-unused",
            f"the kernel `{kernel.name}` is never launched from ModelNew: launch it in forward as"
            f" {kernel.name}[grid](...)",
        )
    elif not any(_launches(node) for scope in program.root.tree() for node in scope.nodes):
        yield Finding(
            getattr(kernel.node, "lineno", 0),
            "kernel-unused",
            f"no kernel is launched: call {kernel.name}[grid](...) in forward",
        )


def cuda(program: Program) -> Iterator[Finding]:
    yield from _inline(program, "cuda_sources")


def cpp(program: Program) -> Iterator[Finding]:
    yield from _inline(program, "cpp_sources")


def _references(scope: Scope) -> Iterator[ast.AST]:
    return (node for node in scope.nodes if isinstance(node, (ast.Name, ast.Attribute)))


def _launches(node: ast.AST) -> bool:
    """`kernel[grid](...)`, or a call of the launcher under its own name."""
    if not isinstance(node, ast.Call):
        return False
    return isinstance(node.func, ast.Subscript) or (
        isinstance(node.func, ast.Attribute) and node.func.attr in ("run", "warmup", "__getitem__")
    )


def _inline(program: Program, argument: str) -> Iterator[Finding]:
    calls = [
        node
        for scope in program.scopes
        for node in scope.nodes
        if isinstance(node, ast.Call) and scope.resolve(node.func) in _LOADERS
    ]
    mentioned = any(scope.resolve(node) in _LOADERS for scope in program.scopes for node in _references(scope))
    if not mentioned or (calls and not any(_passes(call, argument) for call in calls)):
        line = calls[0].lineno if calls else 0
        yield Finding(
            line,
            "kernel-missing",
            f"there is no {program.language.name} kernel: pass its source to"
            f" torch.utils.cpp_extension.load_inline as {argument}",
        )
    elif argument == "cuda_sources" and not _has_text(program, "__global__"):
        yield Finding(
            calls[0].lineno if calls else 0,
            "kernel-missing",
            "the CUDA source has no __global__ function: write a kernel of your own",
        )
    elif calls and not _module_used(program):
        yield Finding(
            calls[0].lineno,
            "kernel-unused",
            "the compiled module is never used by ModelNew: call it in forward",
        )


def _passes(call: ast.Call, argument: str) -> bool:
    """Whether `call` hands over sources of its kind; unknown arguments get the benefit of the doubt."""
    names = {keyword.arg for keyword in call.keywords}
    position = 2 if argument == "cuda_sources" else 1
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    return bool({argument, "sources", None} & names) or len(call.args) > position or starred


def _has_text(program: Program, text: str) -> bool:
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and text in node.value
        for scope in program.scopes
        for node in scope.nodes
    )


def _module_used(program: Program) -> bool:
    """Whether ModelNew leads to the call of a loader, or to `torch.ops`, where a library registers itself."""
    aliases = {name for scope in program.scopes for name, path in scope.imports.items() if path in _LOADERS}
    return not mentioned_from(program, "ModelNew").isdisjoint({"load_inline", "load", "ops"} | aliases)


def mentioned_from(program: Program, start: str) -> set[str]:
    """Every identifier that code reached from `start` mentions."""
    imported = program.root.imports.keys()
    statements = [_identifiers(statement) for statement in program.tree.body]
    homes: dict[str, list[int]] = {}
    for position, (_, bound) in enumerate(statements):
        for name in bound - imported:
            homes.setdefault(name, []).append(position)
    reached = {start}
    pending = [start]
    while pending:
        for position in homes.pop(pending.pop(), []):
            new = statements[position][0] - reached
            reached |= new
            pending += new
            statements[position][0].clear()
    return reached


def _identifiers(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The identifiers that a top-level statement mentions, and the names through which it is reached.

    A definition is reached by its name and by the globals it sets; any other statement by each name in it
    (`REGISTRY["a"] = kernel` gives meaning to REGISTRY).
    """
    mentioned: set[str] = set()
    bound: set[str] = set()
    definition = isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name):
                mentioned.add(name)
                if not definition:
                    bound.add(name)
            case ast.Attribute(attr=name):
                mentioned.add(name)
            case ast.Constant(value=str(name)) if name.isidentifier():
                mentioned.add(name)
            case ast.Global(names=names):
                bound.update(names)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if node is statement or not definition:
                    bound.add(name)
                    mentioned.add(name)
            case _:
                pass
    return mentioned, bound
