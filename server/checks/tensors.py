"""Which expressions of a function are evidently tensors; anything in doubt is not."""

from __future__ import annotations

import ast

from .reach import Function
from .vocabulary import COMPUTE, CREATORS, base_name, words

_EVIDENCE = words(
    """
    shape device dtype stride numel contiguous is_contiguous data_ptr is_cuda element_size
    """
)
_SAME = words(
    """
    view reshape contiguous to float half bfloat16 double t transpose permute flatten squeeze unsqueeze
    expand expand_as clone detach view_as cuda cpu type_as repeat
    """
)
_PARTS = words("T mT data weight bias")
_DEPTH = 8


class Tensors:
    """Answers for one function, its nested functions included."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._attributes = function.attributes
        self._values = self._assignments()
        self._names = self._parameters()
        # Twice, for names that are assigned from names assigned further down.
        for _ in range(2):
            self._names |= {name for name, values in self._values.items() if any(map(self.is_tensor, values))}

    def is_tensor(self, node: ast.expr, depth: int = 0) -> bool:
        if depth > _DEPTH:
            return False
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(value=value, attr=name) if self._function.is_self(value):
                return name in self._attributes.holders and name not in self._attributes.layers
            case ast.Attribute(value=value, attr=name):
                return name in _PARTS and (self._holds(value) or self.is_tensor(value, depth + 1))
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                if self._function.scope.resolve(node.func) in CREATORS:
                    return True
                method = name in _SAME or base_name(name) in COMPUTE
                return method and self.is_tensor(value, depth + 1)
            case ast.Subscript(value=value):
                return self.is_tensor(value, depth + 1)
            case ast.BinOp(left=left, right=right):
                return self.is_tensor(left, depth + 1) or self.is_tensor(right, depth + 1)
            case _:
                return False

    def is_host_data(self, node: ast.expr) -> bool:
        """`torch.tensor([...])` without a device, or a name for it: an autotuner's statistics, say."""
        if isinstance(node, ast.Name):
            values = self._values.get(node.id, [])
            return bool(values) and all(isinstance(v, ast.Call) and self.is_host_data(v) for v in values)
        return (
            isinstance(node, ast.Call)
            and self._function.scope.resolve(node.func) == "torch.tensor"
            and all(keyword.arg not in ("device", None) for keyword in node.keywords)
        )

    def _holds(self, node: ast.expr) -> bool:
        """`self.fc` of `self.fc.weight`."""
        return (
            isinstance(node, ast.Attribute)
            and self._function.is_self(node.value)
            and node.attr in self._attributes.layers
        )

    def _parameters(self) -> set[str]:
        """All inputs of a module's `forward`; elsewhere those annotated or used as tensors."""
        scope = self._function.scope
        evident = {
            node.value.id
            for inner in scope.tree()
            for node in inner.nodes
            if isinstance(node, ast.Attribute) and node.attr in _EVIDENCE and isinstance(node.value, ast.Name)
        }
        forward = scope.name == "forward" and any(b.startswith("torch.nn.") for b in self._attributes.bases)
        names: set[str] = set()
        for parameter in scope.parameters():
            if parameter.arg == self._function.self_name:
                continue
            if parameter.annotation is not None:
                if scope.resolve(parameter.annotation) == "torch.Tensor":
                    names.add(parameter.arg)
            elif forward or parameter.arg in evident:
                names.add(parameter.arg)
        return names

    def _assignments(self) -> dict[str, list[ast.expr]]:
        """The values of each local name, without loop variables and the like, whose values are not told."""
        found: dict[str, list[ast.expr]] = {}
        for inner in self._function.scope.tree():
            parameters = {parameter.arg for parameter in inner.parameters()}
            for name, values in inner.values.items():
                known = [value for value in values if value is not None]
                if len(known) == len(values) or name in parameters:
                    found.setdefault(name, []).extend(known)
        return found
