"""Python's scopes, and what a name or dotted expression in one of them refers to.

`index` visits each node of a tree once. A reference resolves to a canonical dotted path
(`torch.nn.functional.softmax`, `builtins.eval`) through imports, their aliases and names that are assigned
once; a name bound in any other way resolves to None: it is the author's own, and no rule may guess about it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

_BUILTINS = frozenset(dir(builtins))
_CHAIN_CAP = 16
_ALIAS_CAP = 8
_OPENS_SCOPE = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CHILDLESS = (ast.Name, ast.Constant)
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

ScopeNode = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False)
class Scope:
    """The nodes that lie directly in one scope, in source order, and its bindings.

    `values` maps a name to the expressions assigned to it, None standing for any other binding.
    `kernel` marks functions that Triton compiles, whose operators are not PyTorch's.
    """

    node: ScopeNode
    parent: Scope | None
    nodes: list[ast.AST] = field(default_factory=list)
    children: list[Scope] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    kernel: bool = False

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "")

    @property
    def root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def parameters(self) -> list[ast.arg]:
        arguments = getattr(self.node, "args", None)
        if arguments is None:
            return []
        star = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *star]

    def tree(self) -> Iterator[Scope]:
        """This scope and all inside it, outside Triton kernels."""
        pending = [self]
        while pending:
            scope = pending.pop()
            if not scope.kernel:
                yield scope
                pending.extend(scope.children)

    def bind(self, name: str, value: ast.expr | None) -> None:
        target = self.root if name in self.outer else self
        target.values.setdefault(name, []).append(value)

    def is_local(self, name: str) -> bool:
        """Whether a scope between here and the module binds `name`, which then hides the module's."""
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            if name in scope.values and not isinstance(scope.node, ast.ClassDef):
                return True
            scope = scope.parent
        return False

    def lookup(self, name: str, depth: int = 0) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.imports:
                return scope.imports[name]
            if visible and name in scope.values:
                values = scope.values[name]
                alias = values[0] if len(values) == 1 and depth < _ALIAS_CAP else None
                return scope.resolve(alias, depth + 1) if alias is not None else None
            scope = scope.parent
        return f"builtins.{name}" if name in _BUILTINS else None

    def resolve(self, node: ast.AST, depth: int = 0) -> str | None:
        """The canonical path of a name, an attribute chain, or `getattr` with a constant."""
        attributes: list[str] = []
        current: ast.AST = node
        while len(attributes) <= _CHAIN_CAP:
            if isinstance(current, ast.Attribute):
                attributes.append(current.attr)
                current = current.value
            elif isinstance(current, ast.Call) and (constant := self._constant_getattr(current, depth)):
                attributes.append(constant)
                current = current.args[0]
            else:
                break
        base = self.lookup(current.id, depth) if isinstance(current, ast.Name) else None
        return _canonical(".".join([base, *reversed(attributes)])) if base else None

    def _constant_getattr(self, call: ast.Call, depth: int) -> str | None:
        match call:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                return name if self.lookup("getattr", depth) == "builtins.getattr" else None
            case _:
                return None


def _canonical(path: str) -> str:
    """One spelling for what torch and triton offer under several."""
    if path.startswith("torch.nn.modules."):
        return "torch.nn." + path.split(".")[-1]
    if path in ("triton.runtime.jit", "triton.runtime.jit.jit"):
        return "triton.jit"
    return path.replace("torch.functional.", "torch.", 1)


def index(tree: ast.Module) -> list[Scope]:
    """Every scope of `tree`, outer before inner. Strings that are statements (docstrings) are left out."""
    root = Scope(tree, None)
    scopes = [root]
    pending: list[tuple[ast.AST, Scope]] = [(node, root) for node in reversed(tree.body)]
    while pending:
        node, scope = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        scope.nodes.append(node)
        _bind(node, scope)
        if isinstance(node, _OPENS_SCOPE):
            inner = _open(node, scope)
            scopes.append(inner)
            body = node.body if isinstance(node.body, list) else [node.body]
            pending.extend((child, inner) for child in reversed(body))
        pending.extend((child, scope) for child in reversed(_children(node)))
    return scopes


def _open(node: ScopeNode, outer: Scope) -> Scope:
    inner = Scope(node, outer)
    for parameter in inner.parameters():
        inner.bind(parameter.arg, None)
    outer.children.append(inner)
    return inner


def _children(node: ast.AST) -> list[ast.AST]:
    """Those in the scope of `node` itself, without operators and contexts, and without the target of a
    simple assignment, which `_bind` has read."""
    if isinstance(node, _CHILDLESS):
        return []
    if isinstance(node, ast.Attribute):
        return [node.value]
    if isinstance(node, ast.Lambda):
        return [node.args]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return [node.value]
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, _MARKS)]


def _bind(node: ast.AST, scope: Scope) -> None:
    """Record the names that `node` itself binds in `scope`."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                scope.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                scope.imports[alias.asname or alias.name] = _canonical(f"{module}.{alias.name}")
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.bind(name, value)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            scope.outer.update(names)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bind(name, None)
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            scope.bind(name, None)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bind(name, None)
        case _:
            pass
