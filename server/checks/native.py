"""C++ and CUDA text inside the submission: no ATen compute, no way round the dispatcher, no vendor libraries.

Reads every string of the file that looks like C++ or goes to a compiler, docstrings apart, without its
comments and literals. Names built by macros escape it; the kernels that really run are checked later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from .cpp import code_only
from .findings import Finding, short
from .program import Program
from .scopes import Scope
from .vocabulary import COMPUTE, UNMISTAKABLE, base_name, words

_LOOKS_NATIVE = re.compile(
    r"#\s*include|__global__|__device__|PYBIND11_MODULE|TORCH_LIBRARY|\btorch::|\bat::|\bc10::|extern\s+\"C\""
)
_ATEN = re.compile(
    r"(?<![\w:])(?:::\s{0,4})?(?:at|torch)\s{0,4}::\s{0,4}((?:\w{1,64}\s{0,4}::\s{0,4}){0,4})(\w{1,64})"
)
_METHOD = re.compile(rf"(?:\.|->)\s{{0,4}}({'|'.join(sorted(UNMISTAKABLE))})\s{{0,4}}\(")
_BACKENDS = words("native cpu meta _ops compositeexplicitautograd compositeimplicitautograd")
_LIBRARIES_OF_TORCH = words("nn jit linalg fft special inductor")
_PREFIXES = (
    "linalg_",
    "fft_",
    "special_",
    "cudnn_",
    "mkldnn_",
    "miopen_",
    "_foreach_",
    "_fused_",
    "_scaled_",
)

# Each hit costs a look for its line; an agent needs to see a few.
_HITS_CAP = 20

_COMPUTES = "computes in PyTorch: compute it in your own kernel"
_DISPATCH = "works round PyTorch's dispatcher: not allowed"
_LIBRARY = "is a vendor library: write the kernel yourself"
_WHOLE = "is a library's whole operation: write the kernel yourself (its block- and warp-level parts are fine)"
_SYSTEM = "reaches beyond the kernel into the system: not allowed"
_PYTHON = "calls back into Python: do the work in C++ or CUDA"
_PATTERNS = (
    (
        "native-dispatch",
        _DISPATCH,
        re.compile(
            r"\b(?:(?:Exclude|Include|Force)DispatchKeyGuard|AutoDispatchBelow\w{0,40}|AutoNonVariableTypeMode"
            r"|TorchDispatchModeTLS|Python(?:Dispatcher)?TLS\w{0,40}|InferenceMode|DispatchKey(?:Set)?"
            r"|c10\s{0,4}::\s{0,4}Dispatcher|tls_set_dispatch_key\w{0,40})\b"
        ),
    ),
    (
        "native-library",
        _LIBRARY,
        re.compile(
            r"\b(?:cublas|cudnn|cufft|cusolver|cusparse|cutensor|mkldnn|dnnl|cblas_|lapacke?_|mkl_)\w{0,60}"
            r"|\b[sdcz]gemm_\b|\bgetCurrentCUDA(?:Blas|Sparse|Solver)\w{0,40}"
            r"|\bcutlass\s{0,4}(?:::|/)\s{0,4}\w{1,40}\s{0,4}(?:::|/)\s{0,4}device\b",
            re.IGNORECASE,
        ),
    ),
    (
        "native-library",
        _WHOLE,
        re.compile(
            r"\bcub\s{0,4}::\s{0,4}Device[A-Z]\w{0,40}"
            r"|\bthrust\s{0,4}::\s{0,4}(?:(?:stable_)?sort|reduce|transform|(?:in|ex)clusive_scan|inner_product"
            r"|count|copy_if|unique|partition|min_element|max_element|minmax_element)\w{0,20}(?=\s{0,4}[(<])"
        ),
    ),
    (
        "native-system",
        _SYSTEM,
        re.compile(
            r"(?<![\w.>])(?:dlopen|dlmopen|dlsym|system|popen|v?fork|exec[lv]p?e?|posix_spawnp?|ptrace|mprotect"
            r"|process_vm_\w{1,10}|pidfd_\w{1,20}|kill|syscall|cu(?:Module|Library)Load\w{0,20})(?=\s{0,4}\()"
        ),
    ),
    (
        "native-python",
        _PYTHON,
        re.compile(
            r"\b(?:py|pybind11)\s{0,4}::\s{0,4}(?:exec|eval|eval_file|module_?\s{0,4}::\s{0,4}import)\b"
            r"|\bPy(?:Run|Import)_\w{1,40}"
        ),
    ),
)
_LINKS = re.compile(
    r"(?:^|[\s/])(?:-l|lib)(?:cublas|cudnn|cufft|cusolver|cusparse|cutensor|mkl|dnnl|openblas|blas)"
)


def native(program: Program) -> Iterator[Finding]:
    for scope in program.scopes:
        for node, text in _strings(scope):
            if _LOOKS_NATIVE.search(text):
                yield from _scan(program, node, text)
            elif len(text) < 400 and (link := _LINKS.search(text)):
                name = short(text.strip() or link.group())
                yield Finding(node.lineno, "native-library", f"the link flag `{name}` {_LIBRARY}")


def _strings(scope: Scope) -> Iterator[tuple[ast.expr, str]]:
    """The strings of a scope; pieces joined by `+` or in an f-string count as one."""
    joined: set[int] = set()
    for node in scope.nodes:
        if id(node) in joined or not isinstance(node, (ast.BinOp, ast.JoinedStr, ast.Constant)):
            continue
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node, node.value
            continue
        pieces = []
        for part in _pieces(node):
            joined.add(id(part))
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                pieces.append(part)
        if pieces:
            yield pieces[0], "".join(str(piece.value) for piece in pieces)


def _pieces(node: ast.expr) -> Iterator[ast.expr]:
    """`node` and, in source order, the operands below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            pending += [current.right, current.left]
        elif isinstance(current, ast.JoinedStr):
            pending += reversed(current.values)


def _scan(program: Program, node: ast.expr, text: str) -> Iterator[Finding]:
    code = code_only(text)
    for offset, rule, message in islice(_hits(code), _HITS_CAP):
        yield Finding(_line(program, node, text, code.count("\n", 0, offset)), rule, message)


def _hits(code: str) -> Iterator[tuple[int, str, str]]:
    """Offset, rule and message of each thing in `code` that is not allowed."""
    for match in _ATEN.finditer(code):
        if _computes(match[1], match[2]):
            name = short("".join(match.group().split()))
            yield match.start(), "native-compute", f"`{name}` {_COMPUTES}"
    for match in _METHOD.finditer(code):
        yield match.start(), "native-compute", f"`.{match[1]}()` {_COMPUTES}"
    for rule, reason, pattern in _PATTERNS:
        for match in pattern.finditer(code):
            yield match.start(), rule, f"`{short(match.group())}` {reason}"


def _computes(namespaces: str, name: str) -> bool:
    spaces = [part.strip() for part in namespaces.split("::") if part.strip()]
    if "vec" in spaces:
        return False
    if any(space in _BACKENDS or space in _LIBRARIES_OF_TORCH for space in spaces):
        return True
    return base_name(name) in COMPUTE or name.startswith(_PREFIXES)


def _line(program: Program, node: ast.expr, text: str, offset: int) -> int:
    """The submission's line of the string's line `offset`: exact for plain triple-quoted strings, else the
    first line of the literal that holds the same text, else the literal's own."""
    wanted = text.split("\n")[offset].strip()
    first, last = node.lineno, node.end_lineno or node.lineno
    guess = first + offset
    if guess <= last and wanted in program.lines[guess - 1]:
        return guess
    for line in range(first, min(last, len(program.lines)) + 1):
        if wanted and wanted in program.lines[line - 1]:
            return line
    return first
