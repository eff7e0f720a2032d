"""Helion in the processes that run submissions: imported once, its tracing told to the dispatch guard.

A kernel's first call for some shapes traces it on fake tensors inside a `CompileEnvironment`, writes Triton source
into the candidate's own cache and imports that; later calls only launch. Nothing is tuned here: without a
configuration a kernel gets Helion's default. What Helion imports for its tuner alone is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch

from . import libdevice

if TYPE_CHECKING:
    from .guard import DispatchGuard

_FOR_TUNING = ("sklearn", "scipy", "pandas", "pyarrow")
_ENVIRONMENT = {"HELION_AUTOTUNE_EFFORT": "none", "HELION_AUTOTUNE_CACHE": "LocalAutotuneCache"}
_PREFIX = "_helion_"


def prepare() -> None:
    """Import Helion and the parts of PyTorch that it compiles with. Raises `ImportError`."""
    os.environ.update(_ENVIRONMENT)
    with _without_device(), _left_out(_FOR_TUNING):
        for name in ("helion", "helion.language", f"{__package__}.tracing"):  # a candidate reads no file of ours
            import_module(name)
    if os.environ.get("TRITON_INTERPRET") == "1":
        _quicken_interpreter()
    with suppress(ImportError):
        import_module("tqdm").tqdm.monitor_interval = 0  # PyTorch's graphs show their progress, in a thread


def attend(guard: DispatchGuard) -> None:
    import helion
    from helion._compiler.compile_environment import CompileEnvironment

    from .tracing import Tracing

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = _sources()
    tracing = guard.tracing = Tracing(str(Path(helion.__file__).parent))
    enter, leave = CompileEnvironment.__enter__, CompileEnvironment.__exit__

    def entered(self: Any) -> Any:
        tracing.begin()
        try:
            return enter(self)
        except BaseException:
            tracing.end()
            raise

    def left(self: Any, *reason: Any) -> Any:
        try:
            return leave(self, *reason)
        finally:
            tracing.end()

    CompileEnvironment.__enter__, CompileEnvironment.__exit__ = entered, left


def errors() -> tuple[type[BaseException], ...]:
    from helion import exc

    return (exc.Base,)


def generated(function: Callable[..., object]) -> bool:
    file = function.__code__.co_filename
    return function.__name__.startswith(_PREFIX) and file.startswith(f"{_sources()}{os.sep}")


def _sources() -> str:
    """Where Helion writes its modules: in the candidate's own folder."""
    return f"{tempfile.gettempdir()}/helion"


def _quicken_interpreter() -> None:
    """By a function of Helion's own Triton's interpreter reduces element by element: numpy does so at once."""
    helpers = import_module("helion.runtime.triton.helpers")
    for name, function in (("max_propagate_nan", numpy.max), ("min_propagate_nan", numpy.min)):
        if hasattr(helpers, name):
            setattr(helpers, name, libdevice.reduced(function))


@contextmanager
def _without_device() -> Iterator[None]:
    """To ask whether there is a device would start the driver."""
    available = torch.cuda.is_available
    torch.cuda.is_available = torch.cuda._is_compiled
    try:
        yield
    finally:
        torch.cuda.is_available = available


@contextmanager
def _left_out(names: tuple[str, ...]) -> Iterator[None]:
    """Those not imported so far can't be, for a while: an `ImportError`, which Helion takes for their absence."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
