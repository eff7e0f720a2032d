"""Imports: an allow-list of packages, and a list of torch's parts that a kernel never needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .findings import Finding, short
from .program import Program
from .scopes import Scope
from .vocabulary import words

_ALLOWED = words(
    """
    torch triton numpy math cmath typing typing_extensions os sys functools itertools contextlib dataclasses
    collections enum operator textwrap string re warnings time tempfile pathlib hashlib abc copy types
    numbers random struct json logging uuid platform shutil bisect heapq traceback statistics fractions
    decimal __future__
    """
)
_LISTED = "torch, triton, numpy, math, typing, functools, itertools, contextlib, os, tempfile and the like"

# Modules that an allowed module happens to import must not be had through it (`torch.os`, `tempfile._os`).
_BORROWED = words(
    """
    os _os sys _sys subprocess ctypes inspect gc threading _thread multiprocessing socket importlib
    builtins pickle marshal shelve asyncio concurrent
    """
)

_COMPILER = "compiles or traces PyTorch's own operations: write the kernel yourself"
_DISPATCH = "reaches into PyTorch's dispatcher: call PyTorch through its public interface"
_LOADER = "loads code or data from elsewhere: a submission is self-contained"
_PROCESSES = "starts or joins other processes: a kernel runs in this one"
_PROFILER = "disturbs the record of kernels that the evaluator makes: a kernel has no use for it"
_FORBIDDEN = {
    "torch.profiler": ("profiler", _PROFILER),
    "torch.autograd.profiler": ("profiler", _PROFILER),
    "torch.cuda.profiler": ("profiler", _PROFILER),
    "torch.cuda.cudart": ("profiler", _PROFILER),
    "torch.compile": ("compiler", _COMPILER),
    "torch.compiler": ("compiler", _COMPILER),
    "torch.jit": ("compiler", _COMPILER),
    "torch.fx": ("compiler", _COMPILER),
    "torch.export": ("compiler", _COMPILER),
    "torch._inductor": ("compiler", _COMPILER),
    "torch._dynamo": ("compiler", _COMPILER),
    "torch._export": ("compiler", _COMPILER),
    "torch._functorch": ("compiler", _COMPILER),
    "torch.cuda.make_graphed_callables": ("compiler", _COMPILER),
    "torch._C": ("torch-internal", _DISPATCH),
    "torch._ops": ("torch-internal", _DISPATCH),
    "torch._prims": ("torch-internal", _DISPATCH),
    "torch._refs": ("torch-internal", _DISPATCH),
    "torch._decomp": ("torch-internal", _DISPATCH),
    "torch._higher_order_ops": ("torch-internal", _DISPATCH),
    "torch._subclasses": ("torch-internal", _DISPATCH),
    "torch.overrides": ("torch-internal", _DISPATCH),
    "torch.utils._python_dispatch": ("torch-internal", _DISPATCH),
    "torch.utils._mode_utils": ("torch-internal", _DISPATCH),
    "torch._dispatch": ("torch-internal", _DISPATCH),
    "torch.ops.aten": ("torch-internal", "is PyTorch's own operator: compute it in your own kernel"),
    "torch.ops.prims": ("torch-internal", "is PyTorch's own operator: compute it in your own kernel"),
    "torch.classes": ("torch-internal", _LOADER),
    "torch.load": ("torch-internal", _LOADER),
    "torch.hub": ("torch-internal", _LOADER),
    "torch.package": ("torch-internal", _LOADER),
    "torch.multiprocessing": ("process", _PROCESSES),
    "torch.distributed": ("process", _PROCESSES),
    "numpy.load": ("import", _LOADER),
    "numpy.memmap": ("import", _LOADER),
    "numpy.ctypeslib": ("import", "calls foreign code: use load_inline for native kernels"),
    "numpy.f2py": ("import", "calls foreign code: use load_inline for native kernels"),
    "operator.attrgetter": ("reflection", "hides what is called: write the call out"),
    "operator.methodcaller": ("reflection", "hides what is called: write the call out"),
    "types.FunctionType": ("reflection", "builds code at run time: define a function"),
    "types.CodeType": ("reflection", "builds code at run time: define a function"),
    "logging.config": ("import", _LOADER),
}

_OS = words(
    """
    environ environb getenv putenv unsetenv path makedirs mkdir mkdirs getpid cpu_count
    process_cpu_count sched_getaffinity sep linesep pathsep name getcwd listdir scandir walk remove
    unlink rmdir removedirs rename replace PathLike fspath stat urandom uname access R_OK W_OK X_OK F_OK
    getuid devnull curdir strerror times error
    """
)
_SYS = words(
    """
    version version_info platform maxsize float_info int_info byteorder stderr stdout executable
    implementation hexversion getsizeof path argv
    """
)


def imports(program: Program) -> Iterator[Finding]:
    allowed = _ALLOWED | program.language.imports
    for scope in program.scopes:
        for node in scope.nodes:
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        yield from _judge_import(alias.name, node.lineno, allowed)
                case ast.ImportFrom(module=module, names=names, level=level):
                    if level or module is None:
                        yield Finding(
                            node.lineno,
                            "import",
                            "a relative import finds nothing: a submission is one self-contained file",
                        )
                        continue
                    for alias in names:
                        yield from _judge_import(f"{module}.{alias.name}", node.lineno, allowed)
                case ast.Attribute() | ast.Call(func=ast.Name(id="getattr")):
                    yield from _judge_use(node, scope)
                case _:
                    pass


def _judge_import(path: str, line: int, allowed: frozenset[str]) -> Iterator[Finding]:
    package = path.split(".")[0]
    if package not in allowed:
        yield Finding(line, "import", f"`{short(package)}` may not be imported; a kernel needs only {_LISTED}")
        return
    parts = path.split(".")
    for end in range(2, len(parts) + 1):
        yield from _judge_path(".".join(parts[:end]), line)


def _judge_use(node: ast.expr, scope: Scope) -> Iterator[Finding]:
    path = scope.resolve(node)
    if path is not None:
        yield from _judge_path(path, node.lineno)


def _judge_path(path: str, line: int) -> Iterator[Finding]:
    """`path` is exact: each prefix of a longer chain is a node, and so judged, of its own."""
    if path in _FORBIDDEN:
        rule, reason = _FORBIDDEN[path]
        yield Finding(line, rule, f"`{path}` {reason}")
        return
    parts = path.split(".")
    if len(parts) == 2 and parts[0] == "os" and parts[1] not in _OS:
        yield Finding(
            line,
            "process",
            f"`{short(path)}` is not allowed; of os, use paths and os.environ only",
        )
    elif len(parts) == 2 and parts[0] == "sys" and parts[1] not in _SYS:
        yield Finding(line, "process", f"`{short(path)}` is not allowed: a kernel has no use for it")
    elif len(parts) > 1 and parts[-1] in _BORROWED and parts[0] in _ALLOWED:
        yield Finding(line, "import", f"`{short(path)}` borrows a module that may not be imported")
