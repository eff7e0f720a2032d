"""Which functions of a submission `ModelNew.forward` reaches, each with the class that it belongs to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from .program import Program
from .scopes import Scope
from .vocabulary import CREATORS, is_compute, is_layer

_ENTRIES = ("forward", "__call__")
# Nodes to follow; a submission that goes on for longer is left to the dispatch guard.
_NODE_BUDGET = 300_000


@dataclass
class Attributes:
    """What the methods of a class assign to attributes of `self`.

    `layers` maps them to the torch.nn layer (or function) that they hold; `holders` lists those that hold
    tensors; `instances` maps them to the file's own classes; `bases` are the canonical paths of the class's
    bases outside the file.
    """

    layers: dict[str, str] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)
    instances: dict[str, Scope] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)


@dataclass
class Function:
    """A function, or a method of the class `owner`, that `forward` reaches."""

    scope: Scope
    owner: Scope | None
    self_name: str | None
    attributes: Attributes

    def is_self(self, node: ast.expr) -> bool:
        return self.self_name is not None and isinstance(node, ast.Name) and node.id == self.self_name


def reached_from_forward(program: Program) -> list[Function]:
    """`ModelNew.forward` first; empty where it cannot be found in the file."""
    model = program.classes.get("ModelNew")
    if model is None:
        return []
    known: dict[Scope | None, Attributes] = {None: Attributes()}
    found: list[Function] = []
    seen: set[tuple[Scope | None, Scope]] = set()
    queue = list(_entries(program, model))
    budget = _NODE_BUDGET
    for owner, scope in queue:
        if scope.kernel or (owner, scope) in seen or budget < 0:
            continue
        seen.add((owner, scope))
        if owner is not None and owner not in known:
            methods = [method for base in program.base_classes(owner) for method in base.children]
            known[owner] = _attributes(program, owner, methods)
            budget -= len(methods) + sum(len(method.nodes) for method in methods)
        function = Function(scope, owner, _self_name(scope) if owner else None, known[owner])
        found.append(function)
        budget -= sum(len(inner.nodes) for inner in scope.tree())
        queue.extend(_callees(program, function))
    return found


def _self_name(scope: Scope) -> str | None:
    node = scope.node
    static = isinstance(node, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
    )
    parameters = scope.parameters()
    return parameters[0].arg if parameters and not static else None


def _attributes(program: Program, owner: Scope, methods: list[Scope]) -> Attributes:
    attributes = Attributes()
    for current in program.base_classes(owner):
        assert isinstance(current.node, ast.ClassDef)
        resolved = (program.root.resolve(base) for base in current.node.bases)
        attributes.bases += [path for path in resolved if path is not None]
    for method in methods:
        _read(program, method, attributes)
    return attributes


def _read(program: Program, method: Scope, attributes: Attributes) -> None:
    """Note what `method` assigns to attributes of its own `self`."""
    name = _self_name(method)
    for scope in method.tree() if name else []:
        for node in scope.nodes:
            for target in node.targets if isinstance(node, ast.Assign) else []:
                match target:
                    case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name:
                        assert isinstance(node, ast.Assign)
                        _note(program, attributes, scope, attribute, node.value)
                    case _:
                        pass


def _note(program: Program, attributes: Attributes, scope: Scope, name: str, value: ast.expr) -> None:
    path = scope.resolve(value)
    if path is not None and is_compute(path):
        attributes.layers[name] = path
    if not isinstance(value, ast.Call):
        return
    if isinstance(value.func, ast.Name) and value.func.id in program.classes:
        attributes.instances[name] = program.classes[value.func.id]
        return
    path = scope.resolve(value.func) or ""
    if is_layer(path):
        attributes.layers[name] = path
    elif path == "torch.nn.Sequential":
        made = (scope.resolve(a.func) for a in value.args if isinstance(a, ast.Call))
        if layer := next((p for p in made if p and is_layer(p)), None):
            attributes.layers[name] = f"Sequential of {layer}"
    if path in CREATORS or path in ("torch.nn.Parameter", "torch.nn.Buffer"):
        attributes.holders.add(name)


def _callees(program: Program, function: Function) -> Iterator[tuple[Scope | None, Scope]]:
    for scope in function.scope.tree():
        for node in scope.nodes:
            if isinstance(node, ast.Attribute):
                yield from _through_attribute(program, function, node)
            elif isinstance(node, ast.Name) and not scope.is_local(node.id):
                if node.id in program.functions:
                    yield None, program.functions[node.id]
                elif node.id in program.classes:
                    yield from _entries(program, program.classes[node.id])


def _through_attribute(
    program: Program, function: Function, node: ast.Attribute
) -> Iterator[tuple[Scope | None, Scope]]:
    """`self.method`, `self.block`, `self.block.method`, `Class.method`, `super().method`."""
    instances = function.attributes.instances
    owner: Scope | None = None
    match node.value:
        case ast.Name() if function.is_self(node.value):
            if node.attr in instances:
                yield from _entries(program, instances[node.attr])
            owner = function.owner
        case ast.Name(id=name):
            owner = program.classes.get(name)
        case ast.Attribute(value=inner, attr=name) if function.is_self(inner):
            owner = instances.get(name)
        case ast.Call(func=ast.Name(id="super")) if function.owner is not None:
            for base in program.base_classes(function.owner)[1:]:
                if method := program.method(base, node.attr):
                    yield function.owner, method
        case _:
            pass
    if owner is not None and (method := program.method(owner, node.attr)):
        yield owner, method


def _entries(program: Program, owner: Scope) -> Iterator[tuple[Scope | None, Scope]]:
    for name in _ENTRIES:
        if method := program.method(owner, name):
            yield owner, method
