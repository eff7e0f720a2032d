"""Ways round the checks: running text as code, reaching into the interpreter, patching what others use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding, short
from .program import Program
from .scopes import Scope
from .vocabulary import is_compute, words

_BUILTINS = {
    "eval": "runs text as code: write the code out",
    "exec": "runs text as code: write the code out",
    "compile": "turns text into code: write the code out",
    "__import__": "hides an import: use an import statement",
    "open": "opens files: a submission is self-contained (give native source to load_inline as text)",
    "input": "waits for input that never comes",
    "breakpoint": "waits for a debugger that never comes",
    "exit": "ends the process: raise an exception instead",
    "quit": "ends the process: raise an exception instead",
}
_REFLECTION = words(
    """
    __subclasses__ __globals__ __builtins__ __code__ __closure__ __bases__ __mro__ __base__ __loader__
    __spec__ __getattribute__ __reduce__ __reduce_ex__ __self__ f_back f_globals f_locals f_builtins
    tb_frame gi_frame cr_frame ag_frame gi_code cr_code _getframe _current_frames
    """
)
_OVERRIDES = words(
    """
    _make_subclass _make_wrapper_subclass __torch_function__ __torch_dispatch__ _disable_current_modes
    _DisableTorchDispatch _pop_mode _push_mode DisableTorchFunction DisableTorchFunctionSubclass
    """
)
# What the evaluator calls on a model, and what runs behind its back: no kernel needs to change them.
_HOOKS = {
    "__del__": "runs at a time of its own: do the work in forward",
    "__deepcopy__": "changes what a copy of the model is",
    "__copy__": "changes what a copy of the model is",
    "__getstate__": "changes what a copy of the model is",
    "__setstate__": "changes what a copy of the model is",
    "__reduce__": "runs code where an object is read",
    "__reduce_ex__": "runs code where an object is read",
    "__getattribute__": "changes what the model's attributes are",
    "state_dict": "hides the weights, which are filled through it",
    "load_state_dict": "is never called: weights are filled in place, derive others from them in __init__",
    "_load_from_state_dict": "is never called: weights are filled in place, derive others from them in __init__",
    "_save_to_state_dict": "hides the weights, which are filled through it",
}
_TENSORS = frozenset(
    ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter")
)
# Switches for PyTorch's own kernels: common in honest code, and without effect on a candidate's.
_SETTINGS = "torch.backends"
_BYTES_CAP = 4096


def escapes(program: Program) -> Iterator[Finding]:
    for scope in program.scopes:
        for node in scope.nodes:
            match node:
                case ast.Name():
                    yield from _name(node, scope)
                case ast.Attribute():
                    yield from _attribute(node, scope)
                case ast.Call(func=ast.Name(id=name)):
                    yield from _call(node, name, scope)
                case ast.Constant():
                    yield from _constant(node)
                case ast.ClassDef():
                    yield from _class(node, scope)
                case ast.FunctionDef(name=name) if name in _OVERRIDES:
                    yield Finding(node.lineno, "tensor-subclass", f"`{name}` changes what tensors do")
                case ast.FunctionDef(name=name) if name in _HOOKS and isinstance(scope.node, ast.ClassDef):
                    yield Finding(node.lineno, "override", f"`{name}` {_HOOKS[name]}")
                case _:
                    pass


def _name(node: ast.Name, scope: Scope) -> Iterator[Finding]:
    if node.id in _REFLECTION:
        yield _reflection(node.id, node.lineno)
    elif node.id in _BUILTINS and scope.lookup(node.id) == f"builtins.{node.id}":
        yield Finding(node.lineno, "builtin", f"`{node.id}` {_BUILTINS[node.id]}")


def _attribute(node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    if node.attr in _REFLECTION:
        yield _reflection(node.attr, node.lineno)
    elif node.attr in _OVERRIDES:
        yield Finding(node.lineno, "tensor-subclass", f"`{node.attr}` changes what tensors do")
    elif node.attr == "__dict__" and scope.resolve(node.value) is not None:
        yield _reflection("__dict__ of a module", node.lineno)
    elif not isinstance(node.ctx, ast.Load):
        yield from _assignment(node, scope)


def _assignment(node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    if node.attr == "__class__":
        yield Finding(node.lineno, "monkeypatch", "an object's class may not be changed")
        return
    owner = scope.resolve(node.value)
    if owner is not None and not owner.startswith(_SETTINGS):
        yield _patch(f"{owner}.{node.attr}", node.lineno)


def _call(node: ast.Call, name: str, scope: Scope) -> Iterator[Finding]:
    if not node.args or scope.lookup(name) != f"builtins.{name}":
        return
    owner = scope.resolve(node.args[0])
    if owner is None or owner.startswith(_SETTINGS):
        return
    if name in ("setattr", "delattr"):
        yield _patch(owner, node.lineno)
    elif name == "vars":
        yield _reflection("vars of a module", node.lineno)
    elif name == "getattr" and owner.split(".")[0] in ("torch", "os", "sys"):
        path = scope.resolve(node)
        if path is None:
            yield Finding(
                node.lineno,
                "reflection",
                f"getattr on `{short(owner)}` hides a name: write it out",
            )
        elif is_compute(path):
            yield Finding(
                node.lineno, "reflection", f"`{short(path)}` through getattr: compute it in your own kernel"
            )


def _constant(node: ast.Constant) -> Iterator[Finding]:
    value = node.value
    if isinstance(value, str) and value in _REFLECTION | _OVERRIDES:
        yield _reflection(value, node.lineno)
    elif isinstance(value, (str, bytes)) and len(value) > _BYTES_CAP and _is_blob(value):
        yield _binary(node.lineno)


def _is_blob(value: str | bytes) -> bool:
    return isinstance(value, bytes) or not any(character.isspace() for character in value)


def _class(node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    if any(scope.resolve(base) in _TENSORS for base in node.bases):
        yield Finding(
            node.lineno, "tensor-subclass", "tensor subclasses are not allowed: return a plain torch.Tensor"
        )


def _reflection(what: str, line: int) -> Finding:
    return Finding(line, "reflection", f"`{what}` reaches into the interpreter: a kernel has no use for it")


def _patch(path: str, line: int) -> Finding:
    return Finding(line, "monkeypatch", f"`{short(path)}` may not be replaced: it is not yours to change")


def _binary(line: int) -> Finding:
    return Finding(line, "binary", f"a literal of over {_BYTES_CAP} bytes looks binary: send source code")
