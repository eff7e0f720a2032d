"""What the zygote imports and adjusts once, before any fork: torch, triton, the extension builder.

Adjustments are few and named: extensions are built light where that works (see `light`); a failed compile raises
`CompilerError`, so that its class and not its wording says what happened; Triton's interpreter takes an
autotuner's first configuration, as there is nothing to time, and has functions of libdevice's names.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import numpy.random  # noqa: F401  (a part that is loaded when first used)
import torch

from . import libdevice
from .light import Light, UnknownHeadersError

_logger = logging.getLogger(__name__)


class CompilerError(RuntimeError):
    """A C++ or CUDA compiler refused the submission; the text is the build's log."""


def triton_errors() -> tuple[type[BaseException], ...]:
    """Triton's exceptions that mean "this kernel can't be built for this device"."""
    if "triton" not in sys.modules:
        return ()
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    return (CompilationError, OutOfResources, PTXASError)


def prepare(skip: Collection[str] = ()) -> str | None:
    """Import and adjust, and but for what `skip` names, do what speeds up Triton's compiler.

    Nothing here is meant to create a thread or a device context. Returns the name of a step that has: in some
    version of torch or Triton one may, and a new process should then skip it.
    """
    _adjust_builder()
    try:
        import triton
        import triton.language  # noqa: F401
    except ModuleNotFoundError:
        return None
    if os.environ.get("TRITON_INTERPRET") == "1":
        _take_first_configuration()
        libdevice.fill()
        return None
    for name, step in STEPS.items():
        if name not in skip:
            _attempt(name, step)
            if dirty() is not None:
                return name
    return None


def prepare_language(runtime: str) -> str | None:
    """Have a language's runtime (see `languages`) import what it needs. Why that didn't go well, or None."""
    try:
        import_module(runtime).prepare()
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        return f"{runtime} can't be prepared: {type(error).__name__}: {error}"
    return None


def _attempt(name: str, step: Callable[[], object]) -> None:
    """Where one fails, each process tries for itself."""
    try:
        step()
    except (ImportError, AttributeError, AssertionError, OSError, RuntimeError, SubprocessError) as error:
        _logger.warning("not prepared (%s): %s", name, error)


def _import_first_launch() -> None:
    """What Triton imports at a process's first launch, 0.2 s; not every version has all of it."""
    for name in ("triton.compiler.code_generator", "triton.experimental.gluon.nvidia.hopper"):
        with suppress(ImportError):
            import_module(name)


def _hash_triton() -> None:
    from triton.runtime.cache import triton_key

    triton_key()


def _load_triton_driver() -> None:
    """The one object there is of its kind, which loads its C module again whenever it is asked for: that would be
    built again in each process, as each has a cache of its own.
    """
    from triton.backends.nvidia.driver import CudaUtils

    if CudaUtils() is CudaUtils():
        CudaUtils.__init__ = lambda self: None


def _load_fake_tensors() -> None:
    """Modules alone: to enter the mode asks for the number of devices, which starts the driver."""
    import torch._dynamo  # whose settings the mode reads: 1 to 2 s in each process otherwise
    import torch._subclasses.fake_tensor
    import torch.nested._internal.nested_tensor  # noqa: F401

    from . import rehearsal  # noqa: F401


STEPS: dict[str, Callable[[], object]] = {
    "first-launch": _import_first_launch,
    "hash": _hash_triton,
    "driver": _load_triton_driver,
    "fake-tensors": _load_fake_tensors,
}
"""What every process that compiles a Triton kernel would do again: 1.5 to 4 s in all.

Triton's hash of itself, its driver's C module (built by a C compiler; it makes no context), and what fake tensors
load (see `sketch`).
"""


def _import_builder() -> Any:
    """Its import asks whether CUDA is available, which would start the driver in this process."""
    available = torch.cuda.is_available
    torch.cuda.is_available = torch.cuda._is_compiled
    try:
        return import_module("torch.utils.cpp_extension")
    finally:
        torch.cuda.is_available = available


def _adjust_builder() -> None:
    cpp_extension = _import_builder()
    original = cpp_extension._run_ninja_build
    light = _light()

    def run_ninja_build(build_directory: str, verbose: bool, error_prefix: str) -> None:
        run = partial(original, build_directory, verbose=False, error_prefix=error_prefix)
        try:
            light.build(Path(build_directory), run)
        except RuntimeError as error:
            raise CompilerError(str(error)) from None

    cpp_extension._run_ninja_build = run_ninja_build


def _light() -> Light:
    try:
        return Light.over(Path(torch.__file__).parent / "include")
    except (UnknownHeadersError, OSError) as error:
        _logger.warning("extensions are built with all of PyTorch's headers: %s is not as expected", error)
        return Light({})


def _take_first_configuration() -> None:
    from triton.runtime.autotuner import Autotuner

    def no_bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    Autotuner._bench = no_bench


def dirty() -> str | None:
    """Why this process must not fork candidates, or None when it is clean."""
    if torch.cuda.is_initialized():
        return "a CUDA context exists"
    if _has_open("/dev/nvidia-uvm"):
        return "the CUDA driver was started"
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        names = ", ".join(Path(f"/proc/self/task/{thread}/comm").read_text().strip() for thread in threads)
        return f"{len(threads)} threads are running: {names}"
    return None


def _has_open(device: str) -> bool:
    """A driver that is up before a fork is of no use after it, and shows by nothing else."""
    links = Path("/proc/self/fd").iterdir()
    return any(os.path.islink(link) and os.readlink(link) == device for link in links)
