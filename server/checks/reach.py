"""Which functions of a submission `ModelNew.forward` reaches, each with the class that it belongs to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from .program import Program
from .scopes import Scope
from .vocabulary import CREATORS, is_compute, is_layer

_ENTRIES = ("forward", "__call__")


@dataclass
class Function:
    """A function or method that `forward` reaches.

    `layers` maps attributes of `self` to the torch.nn layer (or function) that they hold; `holders` lists
    those that hold tensors; `instances` maps them to the file's own classes; `foreign_bases` are the
    canonical paths of the class's bases outside the file.
    """

    scope: Scope
    owner: Scope | None = None
    self_name: str | None = None
    layers: dict[str, str] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)
    instances: dict[str, Scope] = field(default_factory=dict)
    foreign_bases: list[str] = field(default_factory=list)

    def is_self(self, node: ast.expr) -> bool:
        return self.self_name is not None and isinstance(node, ast.Name) and node.id == self.self_name


def reached_from_forward(program: Program) -> list[Function]:
    """`ModelNew.forward` first; empty where it cannot be found in the file."""
    model = program.classes.get("ModelNew")
    if model is None:
        return []
    found: list[Function] = []
    seen: set[tuple[int, int]] = set()
    pending = [(model, entry) for entry in (program.method(model, name) for name in _ENTRIES) if entry]
    queue: list[tuple[Scope | None, Scope]] = list(pending)
    for owner, scope in queue:
        if scope.kernel or (id(owner), id(scope)) in seen:
            continue
        seen.add((id(owner), id(scope)))
        function = _function(program, owner, scope)
        found.append(function)
        queue.extend(_callees(program, function))
    return found


def _function(program: Program, owner: Scope | None, scope: Scope) -> Function:
    function = Function(scope, owner)
    if owner is None:
        return function
    node = scope.node
    static = isinstance(node, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
    )
    parameters = scope.parameters()
    function.self_name = parameters[0].arg if parameters and not static else None
    for current in program.base_classes(owner):
        assert isinstance(current.node, ast.ClassDef)
        resolved = (program.root.resolve(base) for base in current.node.bases)
        function.foreign_bases += [path for path in resolved if path is not None]
        for method in current.children:
            _read_attributes(program, method, function)
    return function


def _read_attributes(program: Program, method: Scope, function: Function) -> None:
    """Note what `method` assigns to attributes of its own `self`."""
    parameters = method.parameters()
    if not parameters:
        return
    for scope in method.tree():
        for node in scope.nodes:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == parameters[0].arg
                ):
                    _note(program, function, scope, target.attr, node.value)


def _note(program: Program, function: Function, scope: Scope, name: str, value: ast.expr) -> None:
    path = scope.resolve(value)
    if path is not None and is_compute(path):
        function.layers[name] = path
    if not isinstance(value, ast.Call):
        return
    if isinstance(value.func, ast.Name) and value.func.id in program.classes:
        function.instances[name] = program.classes[value.func.id]
        return
    path = scope.resolve(value.func) or ""
    if is_layer(path):
        function.layers[name] = path
    elif path == "torch.nn.Sequential":
        made = (scope.resolve(a.func) for a in value.args if isinstance(a, ast.Call))
        if layer := next((p for p in made if p and is_layer(p)), None):
            function.layers[name] = f"Sequential of {layer}"
    if path in CREATORS or path in ("torch.nn.Parameter", "torch.nn.Buffer"):
        function.holders.add(name)


def _callees(program: Program, function: Function) -> Iterator[tuple[Scope | None, Scope]]:
    for scope in function.scope.tree():
        for node in scope.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in program.functions:
                    yield None, program.functions[node.id]
                elif node.id in program.classes:
                    yield from _entries(program, program.classes[node.id])
            elif isinstance(node, ast.Attribute):
                yield from _attribute(program, function, node)


def _attribute(program: Program, function: Function, node: ast.Attribute) -> Iterator[tuple[Scope | None, Scope]]:
    """`self.method`, `self.block`, `self.block.method`, `Class.method`, `super().method`."""
    owner: Scope | None = None
    match node.value:
        case ast.Name(id=name) if function.is_self(node.value):
            if node.attr in function.instances:
                yield from _entries(program, function.instances[node.attr])
            owner = function.owner
        case ast.Name(id=name):
            owner = program.classes.get(name)
        case ast.Attribute(value=inner, attr=name) if function.is_self(inner):
            owner = function.instances.get(name)
        case ast.Call(func=ast.Name(id="super")):
            yield from _super(program, function, node.attr)
        case _:
            pass
    method = program.method(owner, node.attr) if owner is not None else None
    if method is not None:
        yield owner, method


def _super(program: Program, function: Function, name: str) -> Iterator[tuple[Scope | None, Scope]]:
    if function.owner is not None:
        for base in program.base_classes(function.owner)[1:]:
            if method := program.method(base, name):
                yield function.owner, method


def _entries(program: Program, scope: Scope) -> Iterator[tuple[Scope | None, Scope]]:
    for name in _ENTRIES:
        if method := program.method(scope, name):
            yield scope, method
