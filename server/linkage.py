"""What the compiled modules of a submission are linked to: no PyTorch operator that computes, no vendor library.

Decides on the strings of a module's dynamic string table (see `mapped`). A call that the C++ text hides behind a
macro shows here, and so does one that the dispatch guard does not see, whatever thread or dispatch key it is made
under: the module imports the operator all the same. What a module does without an import (a pointer that it was
handed, code that it makes at run time) it leaves to the record of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .checks.vocabulary import COMPUTE, words

LAUNCHERS = words("PyInit___triton_launcher PyInit_cuda_utils")
_PART = re.compile(r"\d{1,3}")
_NESTED = re.compile(r"_ZN[rVKRO]*")
_BACKENDS = words("cpu cuda meta compositeexplicitautograd compositeimplicitautograd")
_BLAS = words("blas getCurrentCUDABlasHandle getCurrentCUDABlasLtHandle getCurrentCUDASparseHandle")
_LOOKUPS = words("findSchema findSchemaOrThrow findOp callBoxed redispatchBoxed")

_VENDOR = re.compile(
    r"(?:lib)?(?:cublas|cudnn|cufft|cusolver|cusparse|cutensor)\w*(?:\.so[.\d]*)?$"
    r"|lib(?:mkl|dnnl|onednn|openblas|blas|lapack)\w*\.so[.\d]*$|(?:scipy_)?(?:mkl|cblas|LAPACKE|dnnl)_\w+$|[sdcz]gemm_$"
)
_SYSTEM = re.compile(
    r"(?:dlopen|dlmopen|dlv?sym|system|popen|v?fork|exec[lv]p?e?|fexecve|posix_spawnp?|ptrace|process_vm_\w+"
    r"|PyRun_\w+|PyEval_EvalCode\w*|cu(?:Module|Library)Load\w*)$"
)
_OWN_KERNEL = "compute it in your own kernel"


def is_launcher(strings: Collection[str]) -> bool:
    """Triton builds these itself, to load its kernels and to launch them."""
    return not LAUNCHERS.isdisjoint(strings)


def problem(strings: Collection[str]) -> str | None:
    """The first thing that a module with these dynamic strings must not import, and why."""
    system = None if is_launcher(strings) else _SYSTEM
    for text in sorted(strings):
        parts = _parts(text)
        if parts and (found := _computes(parts)):
            return f"the compiled module calls {found} of PyTorch: {_OWN_KERNEL}"
        if _VENDOR.match(text):
            return f"the compiled module uses {text}, a vendor library: {_OWN_KERNEL}"
        if system is not None and system.match(text):
            return f"the compiled module imports {text}: it reaches beyond the kernel into the system"
    return None


def _computes(parts: list[str]) -> str | None:
    """The name of what computes behind a qualified name."""
    match parts:
        case ["at", "_ops", name, *_] | ["at", "redispatch", name, *_] if is_operation(name):
            return name
        case ["at", "cuda", name, *_] if name in _BLAS:
            return f"{name} (cuBLAS)"
        case ["at", backend, name, *_] if backend in _BACKENDS and is_operation(name):
            return f"{backend}::{name}"
        case ["at", "native", name, *_]:
            return f"native::{name}"
        case ["c10", "Dispatcher" | "OperatorHandle", name, *_] if name in _LOOKUPS:
            return f"an operator by {name}"
        case ["torch", "nn" | "jit" as space, name, *_]:
            return f"{space}::{name}"
        case _:
            return None


def is_operation(name: str) -> bool:
    """One that computes, with or without the name of its overload: `sum_dim_IntList`, `relu_`, `_softmax`."""
    parts = name.strip("_").split("_")
    return any("_".join(parts[:count]) in COMPUTE for count in range(len(parts), 0, -1))


def _parts(symbol: str) -> list[str]:
    """The components of a mangled qualified name (Itanium C++ ABI), as far as they are plain."""
    start = _NESTED.match(symbol)
    position = start.end() if start else 0
    parts: list[str] = []
    while start and (length := _PART.match(symbol, position)):
        position = length.end() + int(length[0])
        parts.append(symbol[length.end() : position])
    return parts
