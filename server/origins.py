"""Whose a kernel is, by where it comes from: the submission's Triton functions, its compiled modules, its text.

In the candidate's process. nvcc leaves the mangled name of each kernel in the module that launches it; Triton's
compiled kernels know the function that they were made from, and a language's compiler those that it wrote.
Names of libraries are found in neither.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .mapped import Mapped

Generated = Callable[[Callable[..., object]], bool]
_MANGLED = re.compile(rb"_Z[\w.$]{2,4000}")
_HEAD = re.compile(r"(?:[^<(]*[\s:])?(\w+)\s*(?:[<(]|$)")
_IDENTIFIER = re.compile(r"\w+")


class Origins:
    """Answers for `names`, demangled as CUPTI's record has them."""

    def __init__(
        self, names: Iterable[str], modules: Iterable[Mapped], text: str, generated: Generated | None = None
    ) -> None:
        self._names = set(names)
        compiled = list(_triton_kernels(generated))
        self._triton = {kernel.name for kernel in compiled}
        self.spills = _spills(compiled)
        self._extension = self._in_modules(list(modules))
        self._identifiers = set(_IDENTIFIER.findall(text))

    def of(self, name: str) -> str:
        if name in self._triton:
            return "triton"
        if name in self._extension:
            return "extension"
        return "text" if base_name(name) in self._identifiers else ""

    def _in_modules(self, modules: list[Mapped]) -> set[str]:
        wanted = {name: base_name(name).encode() for name in self._names}
        found: set[str] = set()
        for content in (part for module in modules for part in module.contents()):
            present = {name for name, base in wanted.items() if base and base in content}
            found |= {name for name in present if b"\0" + wanted[name] + b"\0" in content and "(" not in name}
            bases = {wanted[name] for name in present}
            mangled = {text for text in _MANGLED.findall(content) if any(base in text for base in bases)}
            found |= present & {torch._C._demangle(text.decode("ascii", "replace")) for text in mangled}
        return found


def base_name(name: str) -> str:
    """The unqualified name of a demangled kernel: `fill` of `void own::fill<4>(float*, int)`."""
    found = _HEAD.match(name.replace("(anonymous namespace)", "_"))
    return found[1] if found else ""


def _spills(compiled: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Registers spilled, by name and registers a thread, which tell an autotuner's variants apart."""
    numbers = (
        (kernel.name, getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)) for kernel in compiled
    )
    return {
        (name, registers): spilled
        for name, registers, spilled in numbers
        if isinstance(registers, int) and isinstance(spilled, int)
    }


def _triton_kernels(generated: Generated | None) -> Iterator[Any]:
    """Those that Triton has compiled from functions of the submission, or `generated` from kernels of its."""
    if "triton" not in sys.modules:
        return
    from triton.compiler import CompiledKernel

    for thing in gc.get_objects():
        if type(thing) is CompiledKernel:
            function = getattr(getattr(thing.src, "fn", None), "fn", None)
            if getattr(function, "__module__", None) == "submission" or (
                generated is not None and function is not None and generated(function)
            ):
                yield thing
