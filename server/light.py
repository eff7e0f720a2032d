"""Builds of C++ and CUDA extensions over a part of PyTorch's headers, several times faster; or else as they are.

`headers/` stands in front of the few headers that bring in all the others (`torch/types.h`, `ATen/ATen.h` ...).
Behind it are PyTorch's own: tensors with all that they can do, dispatch macros, bindings, and every function of
ATen whose name occurs in the sources, with all that is overloaded under it. So a name is what it is otherwise, or
it is not declared; then it fails to compile, and what failed (C++, CUDA or both) is built again without them. That
is why errors are always the usual ones. Sources that could ask what is declared and do otherwise where it is not
are not tried. Each build has its own copy of the headers: nothing is shared between submissions. All other flags
stay.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

BUILD_FILE = "build.ninja"
FOLDER = "kernel_env_headers"
REFUSED = "kernel_env_headers.refused"
HEADERS = Path(__file__).parent / "headers"
COMPILER = Path(__file__).parent / "nvcc.py"

WHERE = {
    "DeviceGuard": "c10/core/DeviceGuard.h",
    "OptionalDeviceGuard": "c10/core/DeviceGuard.h",
    "device_of": "ATen/DeviceGuard.h",
    "parallel_for": "ATen/Parallel.h",
    "TORCH_LIBRARY": "torch/library.h",
    "TORCH_LIBRARY_IMPL": "torch/library.h",
}
"""Headers that cost too much to be always there, by the names that need them."""
DEVICES = ["getCurrentDeviceProperties", "getDeviceProperties", "warp_size"]

_FACTORY = re.compile(r"^inline at::Tensor (\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(r"^(?:inline|static|TORCH_API)\b[^(\n]*?(\w+)\(", re.MULTILINE)
_MAKES = re.compile(
    r".* \{\n  at::AutoDispatchBelowADInplaceOrView guard;\n  return autograd::make_variable\(at::\w+\(.*\n\}\n"
)
_DECLARATION = re.compile(r"^(?:\w+\*? )+(\w+)\([^();]*\);$", re.MULTILINE)
_CHECK = re.compile(r"^#define AT_CUDA_CHECK\(EXPR\) .*\w\(EXPR\)$", re.MULTILINE)
_SPECIAL = ("_ops", "_native", "_dispatch", "_meta")

_FLAGS = re.compile(r"^((?:cuda_)?cflags) = ", re.MULTILINE)
_NVCC = re.compile(r"^nvcc = (.+)$", re.MULTILINE)
_SOURCE = re.compile(r"^build \S+: (?:cuda_)?compile (.+)$", re.MULTILINE)
_OBJECT = re.compile(r"^build (\S+): (cuda_)?compile ", re.MULTILINE)
_OWN_HEADERS = re.compile(r"(?:^|\s)(?:-I|-include|-imacros|-iquote|--pre-include|--include-path)")

_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"//.*|/\*.*?\*/")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KNOWN = {"defined", "true", "false", "_OPENMP", "NDEBUG", "M_PI", "CUDA_VERSION", "CUDART_VERSION"}
_ASKS = re.compile(r"\b(?:requires|concept|void_t|declval|__has_include\w*)\b|->\s*decltype\b")
_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)"', re.MULTILINE)
_BINDS = re.compile(r"\b(?:py|pybind11)\s*::|\bPYBIND11_")

_MADE = """\
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
// What autograd::make_variable does with a tensor that nobody else has.
namespace torch::autograd {
inline at::Tensor kernel_env_made(at::Tensor data, bool requires_grad) {
  data.set_requires_grad(requires_grad);
  return data;
}
} // namespace torch::autograd
"""


class UnknownHeadersError(LookupError):
    """PyTorch's headers are not as this module knows them; builds are to go without it."""


@dataclass(frozen=True)
class Light:
    """`files`: text by path in the folder that is searched first; empty where extensions are built as usual.

    `operators`: what ATen/ops has a header for and is the same in namespaces at and torch; `factories`: the text
    of what is not, as it makes tensors, by name.
    """

    files: dict[str, str]
    operators: frozenset[str] = frozenset()
    factories: dict[str, str] = field(default_factory=dict)

    @classmethod
    def over(cls, include: Path) -> Light:
        """`include` is PyTorch's folder of headers. Raises `UnknownHeadersError` and `OSError`."""
        own = {path: str(path.relative_to(HEADERS)) for path in sorted(HEADERS.rglob("*.h"))}
        files = {name: path.read_text("utf-8") for path, name in {**own, COMPILER: COMPILER.name}.items()}
        files["kernel_env/cuda.h"] = _cuda(include)
        factories, others = _factories(include)
        names = {path.stem for path in (include / "ATen/ops").glob("*.h") if not path.stem.endswith(_SPECIAL)}
        return cls(files, frozenset(names - others), factories)

    def build(self, directory: Path, run: Callable[[], None]) -> None:
        """`run` ninja with the file in `directory` that PyTorch has written; raises its `RuntimeError`."""
        file, refused = directory / BUILD_FILE, directory / REFUSED
        stock = file.read_text("utf-8")
        objects = {name: f"{kind}cflags" for name, kind in _OBJECT.findall(stock)}
        sources = _sources(stock, directory) if self.files else {}
        kept = set(objects.values()) if sources else set()
        if refused.exists():
            kept &= set(refused.read_text("utf-8").split())
        if kept:
            self._lay_out(directory / FOLDER, sources.values())
        while True:
            file.write_text(_lightened(stock, kept, sources, directory / FOLDER), "utf-8")
            try:
                run()
                return
            except RuntimeError:
                failed = {flags for name, flags in objects.items() if not (directory / name).exists()}
                if not kept & (failed or kept):
                    raise
                kept -= failed or kept
                refused.write_text(" ".join(sorted(kept)), "utf-8")

    def _lay_out(self, folder: Path, sources: Iterable[str]) -> None:
        """A file that is as it should be keeps its time, by which ninja tells what to build again."""
        words = {name for source in sources for name in _NAME.findall(source)}
        for name, text in {**self.files, **self._named(words)}.items():
            path = folder / name
            if not path.exists() or path.read_text("utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")

    def _named(self, words: set[str]) -> dict[str, str]:
        factories = {name: text for name, text in self.factories.items() if name in words}
        operators = sorted(words & self.operators)
        made = f"{_MADE}namespace torch {{\n{''.join(factories.values())}}}\n"
        return {
            "kernel_env/factories.h": made,
            "kernel_env/operators.h": _includes(f"ATen/ops/{name}.h" for name in operators),
            "kernel_env/others.h": _includes(dict.fromkeys(WHERE[name] for name in WHERE if name in words)),
        }


def is_plain(source: str) -> bool:
    """Whether it can't take one way with a name declared and another without."""
    source = source.replace("\\\n", " ")
    conditions = [_COMMENT.sub("", match[1]) for match in _CONDITION.finditer(source)]
    names = {name for condition in conditions for name in _NAME.findall(condition)}
    return not _ASKS.search(source) and all(name.startswith("__") or name in _KNOWN for name in names)


def _sources(stock: str, directory: Path) -> dict[Path, str]:
    """What is compiled, if all of it is in sight and plain; otherwise nothing."""
    paths = [Path(path) for path in _SOURCE.findall(stock)]
    if _OWN_HEADERS.search(stock) or any(path.parent != directory or not path.is_file() for path in paths):
        return {}
    texts = {path: path.read_text("utf-8") for path in paths}
    own = any((directory / name).exists() for text in texts.values() for name in _QUOTED.findall(text))
    return texts if not own and all(map(is_plain, texts.values())) else {}


def _lightened(stock: str, kept: set[str], sources: dict[Path, str], folder: Path) -> str:
    """With `folder` in front for those flags that are `kept`."""
    bound = any(_BINDS.search(text) for path, text in sources.items() if path.suffix == ".cu")
    front = f"-I{_quoted(folder)} {'-DKERNEL_ENV_BINDINGS ' if bound else ''}"
    light = _FLAGS.sub(lambda match: match[0] + front if match[1] in kept else match[0], stock)
    passes = f"{_quoted(sys.executable)} -IS {_quoted(folder / COMPILER.name)}"
    return _NVCC.sub(lambda match: f"nvcc = {passes} {match[1]}", light) if "cuda_cflags" in kept else light


def _quoted(path: str | Path) -> str:
    return shlex.quote(str(path)).replace("$", "$$")


def _includes(headers: Iterable[str]) -> str:
    return "#pragma once\n" + "".join(f"#include <{header}>\n" for header in headers)


def _factories(include: Path) -> tuple[dict[str, str], set[str]]:
    """What makes tensors in namespace torch, as PyTorch defines it; the names of what is defined in other ways."""
    text = (include / "torch/csrc/autograd/generated/variable_factories.h").read_text("utf-8")
    texts: dict[str, list[str]] = {}
    for match in _FACTORY.finditer(text):
        texts.setdefault(match[1], []).append(match[0])
    plain = {name for name, found in texts.items() if all(map(_MAKES.fullmatch, found))}
    if not plain >= {"empty", "empty_like", "zeros", "full"}:
        raise UnknownHeadersError("variable_factories.h")
    made = {name: "".join(texts[name]).replace("make_variable(", "kernel_env_made(") for name in sorted(plain)}
    return made, set(_DEFINED.findall(text)) - plain


def _cuda(include: Path) -> str:
    """What of the headers in ATen/cuda needs no library."""
    found = _DECLARATION.finditer((include / "ATen/cuda/CUDAContextLight.h").read_text("utf-8"))
    declarations = {match[1]: match[0] for match in found if match[1] in DEVICES}
    check = _CHECK.search((include / "ATen/cuda/Exceptions.h").read_text("utf-8"))
    if sorted(declarations) != DEVICES or check is None:
        return "#error not as expected: to be built as usual\n"
    headers = ["ATen/ATen.h", *(f"c10/cuda/CUDA{name}.h" for name in ("Exception", "Functions", "Stream"))]
    declared = "\n".join(declarations.values())
    return f"{_includes(headers)}{check[0]}\nnamespace at::cuda {{\n{declared}\n}}\n"
