"""The languages that submissions are written in: one interface, and the registry that everything asks.

A `Language` says all that differs between them: its prompt, its own static rules, where it runs, what it needs.
Ours are the modules of this package; others are found by their entry points in the group `kernel_env.languages`,
each of which names a `Language`. Nothing here imports torch, nor the package that a language needs: whether that
is there is for the device's own process to say (`Device.versions`). What judges and times is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from ..checks.findings import Finding
    from ..checks.program import Program
    from ..config import Precision
    from ..guard import DispatchGuard
    from ..outcome import Device

GROUP = "kernel_env.languages"
PROMPTS = Path(__file__).parent.parent / "prompts"
Rule = Callable[["Program"], Iterator["Finding"]]
DeviceKind = Literal["cuda", "cpu"]

_OURS = ("triton", "cuda", "cpp", "helion")


class LanguageError(ValueError):
    """The language is none that submissions may be written in, or what it needs is not there."""


class Runtime(Protocol):
    """A module that a language needs in the processes that run submissions."""

    def prepare(self) -> None:
        """Import what is slow to import, once, in the process that forks candidates: no thread, no context."""

    def attend(self, guard: DispatchGuard) -> None:
        """In a candidate, before its submission is read: tell `guard` when a compiler of the language traces."""

    def errors(self) -> tuple[type[BaseException], ...]:
        """Exceptions that mean "this kernel can't be built"."""

    def generated(self, function: Callable[..., object]) -> bool:
        """Whether a compiled Triton kernel's Python function was generated from a kernel of the submission."""


@dataclass(frozen=True)
class Language:
    """`name` is what requests say, `title` what people read.

    `prompt` is a template (`string.Template`) with the placeholders of ours. `rules` are static checks beyond
    those for all languages; `imports` what a submission may import beyond the common list; `decorators` the
    canonical paths of those that make a function a kernel, whose operators are then not PyTorch's. `how` says in a
    sentence, `brief` in a phrase, what a kernel is. `marks` is a regular expression that finds a file in this
    language by what it uses; None: it is never guessed.
    """

    name: str
    title: str
    how: str
    brief: str
    prompt: Path
    rules: tuple[Rule, ...]
    marks: str | None = None
    decorators: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()
    devices: tuple[DeviceKind, ...] = ("cuda",)
    elsewhere: str = "There is no CUDA device here"
    """Why it can't run on a device of another kind."""
    interpreted: bool = False
    """On a CPU, Triton's interpreter runs it, which is not timed."""
    rehearsed: bool = False
    """Its kernels are compiled before the device is held (see `rehearsal`)."""
    halves: Mapping[Precision, str] = field(default_factory=dict)
    """What its prompt adds on a precision."""
    package: str = ""
    """The distribution that it needs."""
    extra: str = ""
    """What to install for it, as pip is told."""
    runtime: str = ""
    """A module that is a `Runtime`."""
    examples: Path | None = None
    """A folder with a submission for each reference of the toolkit's prompts, `row_softmax.py` and so on."""

    def lacks(self, device: Device) -> str | None:
        """Why its submissions can't run on `device`; None if they can."""
        if device.kind == "mock":
            return None
        if device.kind not in self.devices:
            return self.elsewhere
        if self.package and self.package not in device.versions:
            return f"{self.title} needs a package that is not installed: pip install '{self.extra}'"
        return None


def known() -> tuple[str, ...]:
    """The names of all, installed or not; ours first."""
    return tuple(registry())


def runnable(device: Device) -> tuple[str, ...]:
    """The languages whose submissions this device can run."""
    return tuple(name for name, language in registry().items() if language.lacks(device) is None)


def get(name: str) -> Language:
    """Raises `LanguageError`, which names the valid choices."""
    found = registry().get(name)
    if found is None:
        raise LanguageError(f"unknown language {name[:40]!r}; use one of: {', '.join(known())}")
    return found


def check_runnable(name: str, device: Device) -> None:
    """Raises `LanguageError`, which says why not, and which do run."""
    why = get(name).lacks(device)
    if why is not None:
        raise LanguageError(
            f"language={name!r} does not run on this device ({device.kind}): {why};"
            f" use one of: {', '.join(runnable(device))}"
        )


def guess(code: str) -> str:
    """The language of a file by what it uses, for files that don't say: never a verdict; `triton` in doubt."""
    marked = (name for name, one in registry().items() if one.marks and re.search(one.marks, code, re.MULTILINE))
    return next(marked, "triton")


def packages() -> frozenset[str]:
    """What languages need, installed or not."""
    return frozenset(language.package for language in registry().values() if language.package)


def versions() -> dict[str, str]:
    """The versions of what languages need, as far as it is installed here."""
    return {package: found for package in sorted(packages()) if (found := _version(package))}


@cache
def registry() -> Mapping[str, Language]:
    """Every language by name. Raises `LanguageError` for a plug-in that can't be loaded or has another's name."""
    found: dict[str, Language] = {name: import_module(f".{name}", __name__).LANGUAGE for name in _OURS}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            language = entry.load()
        except (ImportError, AttributeError) as error:
            raise LanguageError(f"the language {entry.name} ({entry.value}) can't be loaded: {error}") from error
        if not isinstance(language, Language) or language.name in found:
            raise LanguageError(f"{entry.value} is no kernel_env.server.languages.Language with a name of its own")
        found[language.name] = language
    return found


@cache
def _version(package: str) -> str | None:
    try:
        return version(package) if package else None
    except PackageNotFoundError:
        return None
