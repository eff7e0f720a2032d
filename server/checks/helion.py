"""Helion kernels: `ModelNew` leads to one, its configuration is given, and its work is in its loops.

Around the loops of a kernel Helion runs what it finds as PyTorch; what computes there is told here where it is
plain, and otherwise by the dispatch guard, as everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding, short
from .jit import is_made
from .kernels import mentioned_from
from .program import Program
from .scopes import Scope
from .vocabulary import is_compute, words

DECORATORS = ("helion.kernel", "helion.jit")
_LOOPS = words("tile grid static_range")
_LOOP_PATHS = frozenset(f"helion.language.{name}" for name in _LOOPS)
_PUBLIC = words("kernel jit Config language cdiv next_power_of_2 Kernel exc")
# What starts processes, times configurations or changes how a kernel is run.
_SETTINGS = words(
    """
    ref_mode autotuner_fn autotune_baseline_fn autotune_benchmark_fn autotune_seed_configs force_autotune
    autotune_log autotune_cache backend print_output_code print_repro
    """
)
_FIX = 'give it `config=helion.Config(block_sizes=[...])`, or `autotune_effort="none"` for Helion\'s default'


def helion(program: Program) -> Iterator[Finding]:
    kernels = [scope for scope in program.scopes if _is_kernel(scope)]
    yield from _reaches(program)
    if not kernels:
        yield Finding(
            0, "kernel-missing", "there is no Helion kernel: decorate a function with @helion.kernel(config=...)"
        )
        return
    if not any(scope.name in mentioned_from(program, "ModelNew") for scope in kernels):
        name = kernels[0].name
        yield Finding(
            getattr(kernels[0].node, "lineno", 0),
            "kernel-unused",
            f"the kernel `{name}` is never called from ModelNew: call {name}(...) in forward",
        )
    for scope in kernels:
        yield from _configured(scope)
        yield from _around_loops(scope)


def _is_kernel(scope: Scope) -> bool:
    return isinstance(scope.node, ast.FunctionDef) and is_made(scope.node, scope, DECORATORS)


def _reaches(program: Program) -> Iterator[Finding]:
    """`helion` and `helion.language` alone: the rest is its compiler and its tuner."""
    for scope in program.scopes:
        for node in scope.nodes:
            match node:
                case ast.Import(names=names):
                    paths = [alias.name for alias in names]
                case ast.ImportFrom(module=module, names=names):
                    paths = [f"{module}.{alias.name}" for alias in names]
                case ast.Attribute():
                    paths = [scope.resolve(node) or ""]
                case _:
                    continue
            for path in paths:
                yield from _judge(path, node.lineno)


def _judge(path: str, line: int) -> Iterator[Finding]:
    package, _, part = path.partition(".")
    if package == "helion" and part and part.split(".")[0] not in _PUBLIC:
        yield Finding(line, "import", f"`{short(path)}` is Helion's own: use helion and helion.language")


def _configured(scope: Scope) -> Iterator[Finding]:
    assert isinstance(scope.node, ast.FunctionDef)
    outer = scope.parent or scope
    for decorator in scope.node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if outer.resolve(call.func if call else decorator) not in DECORATORS:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords} if call else {}
        for name in sorted(_SETTINGS & {str(name) for name in given}):
            yield Finding(
                decorator.lineno, "kernel-config", f"`{name}` is not for a submission to set: leave it out"
            )
        if None not in given and not (_fixed(given) or (call and call.args)):
            yield Finding(
                decorator.lineno,
                "kernel-config",
                f"the kernel `{scope.name}` would be tuned at its first call, which takes minutes and processes of"
                f" its own: {_FIX}",
            )


def _fixed(given: dict[str | None, ast.expr]) -> bool:
    effort = given.get("autotune_effort")
    configs = given.get("configs")
    return (
        "config" in given
        or (isinstance(effort, ast.Constant) and effort.value == "none")
        or (isinstance(configs, (ast.List, ast.Tuple)) and len(configs.elts) == 1)
    )


def _around_loops(scope: Scope) -> Iterator[Finding]:
    """What the kernel computes in PyTorch before, between and after its loops."""
    assert isinstance(scope.node, ast.FunctionDef)
    pending: list[ast.AST] = [*scope.node.body]
    looped = False
    while pending:
        node = pending.pop()
        if isinstance(node, ast.For) and _is_loop(node.iter, scope):
            looped = True
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield _outside(node, "@")
        path = scope.resolve(node) if isinstance(node, ast.Attribute) else None
        if path is not None and is_compute(path):
            yield _outside(node, short(path))
        pending.extend(ast.iter_child_nodes(node))
    if not looped:
        yield Finding(
            scope.node.lineno,
            "kernel-missing",
            f"the kernel `{scope.name}` has no loop over hl.tile or hl.grid, and nothing else is compiled",
        )


def _is_loop(iterated: ast.expr, scope: Scope) -> bool:
    return isinstance(iterated, ast.Call) and scope.resolve(iterated.func) in _LOOP_PATHS


def _outside(node: ast.AST, what: str) -> Finding:
    return Finding(
        getattr(node, "lineno", 0),
        "torch-compute",
        f"`{what}` outside of the kernel's hl.tile loops computes in PyTorch: do it inside of a loop",
    )
