"""No PyTorch compute in `ModelNew.forward` nor in what it calls in the file.

Follows calls by name, through methods, helper classes and autograd functions. A method such as `.sum()`
counts only on what is evidently a tensor; arithmetic operators other than `@` are left to the dispatch guard.
Code that only `__init__` reaches may compute: it prepares weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding, short
from .program import Program
from .reach import Function, reached_from_forward
from .scopes import Scope
from .tensors import Tensors
from .vocabulary import COMPUTE, base_name, is_compute, is_layer

_OWN = "compute it in your own kernel"


def compute_in_forward(program: Program) -> Iterator[Finding]:
    for function in reached_from_forward(program):
        tensors = Tensors(function)
        exempt: set[ast.expr] = set()
        for scope in function.scope.tree():
            for node in scope.nodes:
                if isinstance(node, ast.Call):
                    if node.args and tensors.is_host_data(node.args[0]):
                        exempt.add(node.func)
                    yield from _call(node, function, tensors)
                if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and node not in exempt:
                    yield from _reference(node, scope)
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                    yield _finding(node, f"`@` in forward multiplies matrices in PyTorch: {_OWN}")


def _reference(node: ast.expr, scope: Scope) -> Iterator[Finding]:
    path = scope.resolve(node)
    if path is not None and is_compute(path):
        yield _finding(node, f"`{short(path)}` in forward computes in PyTorch: {_OWN}")


def _call(node: ast.Call, function: Function, tensors: Tensors) -> Iterator[Finding]:
    target = node.func
    if isinstance(target, ast.Attribute) and target.attr in ("forward", "__call__"):
        layer = _layer_name(target.value, function)
    else:
        layer = _layer_name(target, function)
    if layer:
        yield _finding(
            node, f"`{layer}` is PyTorch's own layer, called in forward: use its weights in your own kernel"
        )
    elif isinstance(target, ast.Attribute):
        yield from _method(node, target, tensors)


def _layer_name(target: ast.expr, function: Function) -> str | None:
    """`self.conv` of `self.conv(x)` if it holds a layer of torch.nn; likewise `nn.Conv2d(...)(x)`."""
    if isinstance(target, ast.Attribute) and function.is_self(target.value):
        layer = function.attributes.layers.get(target.attr)
        return f"self.{target.attr} ({layer})" if layer else None
    if isinstance(target, ast.Call):
        path = function.scope.resolve(target.func)
        if path is not None and is_layer(path):
            return short(path)
        if isinstance(target.func, ast.Name) and target.func.id == "super":
            return next((short(base) for base in function.attributes.bases if is_layer(base)), None)
    return None


def _method(node: ast.Call, target: ast.Attribute, tensors: Tensors) -> Iterator[Finding]:
    if base_name(target.attr) in COMPUTE and tensors.is_tensor(target.value):
        yield _finding(node, f"`.{target.attr}()` on a tensor in forward computes in PyTorch: {_OWN}")
    elif target.attr == "numpy" and tensors.is_tensor(target.value):
        yield _finding(node, "`.numpy()` in forward takes the data out of PyTorch: work on it in your own kernel")


def _finding(node: ast.AST, message: str) -> Finding:
    return Finding(getattr(node, "lineno", 0), "torch-compute", message)
