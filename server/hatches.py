"""Closes the ways round the dispatch guard that Python itself offers, once, before a submission is read.

In the candidate's process only, and for all of its life: compiling, tracing and capturing the reference's own
operations; taking dispatch modes or dispatch keys away; new implementations of built-in operators; threads without
the guard; foreign functions through ctypes, frames, and this package's own modules; profilers, which would disturb
the record of kernels; a tensor's memory in the hands of numpy where that is the device's own. Using one is a
violation, having it imported is none. Native code finds other ways: this is a layer, not a proof.
"""

from __future__ import annotations

import _ctypes  # noqa: F401
import _thread
import ctypes  # noqa: F401
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import torch
import torch.autograd.profiler
import torch.cuda.profiler
import torch.library
from torch.utils import _python_dispatch

from .guard import BUILTIN_SPACES, DispatchGuard

_LIBRARY_FOLDER = str(Path(torch.__file__).parent)
# Read in the zygote, before any submission.
_LIBRARIES = tuple(f"{folder}/" for folder in [str(Path(__file__).parent), *sys.path] if os.path.isabs(folder))
_PACKAGE = __name__.split(".")[0]
_FOREIGN = "build native code by load_inline"
_REASONS = {"ctypes": _FOREIGN, "_ctypes": _FOREIGN}
_INNER = "a kernel has no business with what evaluates it"
_FOR_IMPORTS = ("__class__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__")
_frame = sys._getframe
# Where other modules keep these functions under names of their own; see `survey`.
_borrowed: list[tuple[ModuleType, str, str]] = []
_NOT_YOURS = "dispatch is not a kernel's business"
_DISPATCH = [
    "_DisableTorchDispatch",
    "_DisablePythonDispatcher",
    "_ExcludeDispatchKeyGuard",
    "_IncludeDispatchKeyGuard",
    "_ForceDispatchKeyGuard",
    "_SetExcludeDispatchKeyGuard",
    "_RestorePythonTLSSnapshot",
    "_pop_torch_dispatch_stack",
    "_push_on_torch_dispatch_stack",
    "_set_dispatch_mode",
    "_unset_dispatch_mode",
    "_dispatch_tls_set_dispatch_key_excluded",
    "_dispatch_tls_set_dispatch_key_included",
]
_ALL_MODES = "_disable_current_modes"
_MODES = ["_pop_mode", "_push_mode", "_pop_mode_temporarily"]
_TRACERS = ["trace", "script", "freeze", "optimize_for_inference"]
_PROFILER = [
    "_prepare_profiler",
    "_enable_profiler",
    "_disable_profiler",
    "_toggle_collection_dynamic",
    "_enable_profiler_legacy",
    "_disable_profiler_legacy",
    "_kineto_step",
]
_MEMORY = ["numpy", "__array__", "tolist", "__dlpack__"]
# They look at tensors for reasons of their own: printing them, and Triton's interpreter running a kernel.
_READERS = ("torch._tensor_str", "triton.")


def survey() -> None:
    """Find who has bound a function that `close` replaces; for the zygote, whenever it has imported something."""
    names = {id(getattr(torch._C, name, None)): name for name in _DISPATCH}
    names |= {id(getattr(_python_dispatch, name, None)): name for name in (*_DISPATCH, *_MODES, _ALL_MODES)}
    names.pop(id(None), None)
    own = (torch._C, _python_dispatch, sys.modules[DispatchGuard.__module__])
    _borrowed[:] = [
        (module, attribute, names[id(value)])
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType) and module not in own
        for attribute, value in list(vars(module).items())
        if id(value) in names
    ]


def close(guard: DispatchGuard, device: torch.device) -> None:
    """To be called once; there is no way back."""
    _forbid_graphs(guard)
    _forbid_dispatch_tricks(guard)
    _forbid_replacing_operators(guard)
    _forbid_profiling(guard)
    _guard_threads(guard)
    if device.type == "cpu":
        _forbid_host_memory(guard)
    _hide(guard)


def _refuse(guard: DispatchGuard, name: str, advice: str = "write the kernel yourself") -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        guard.violate(f"{name} is not allowed: {advice}")

    return refused


def _replace(place: Any, name: str, value: Any) -> None:
    if hasattr(place, name):
        setattr(place, name, value)


def _forbid_graphs(guard: DispatchGuard) -> None:
    torch.compile = _refuse(guard, "torch.compile")
    for name in _TRACERS:
        _replace(torch.jit, name, _refuse(guard, f"torch.jit.{name}"))
    if hasattr(torch.cuda, "CUDAGraph"):
        _forbid_capture_outside_forward(guard)


def _forbid_capture_outside_forward(guard: DispatchGuard) -> None:
    """Elsewhere (on import, in `__init__`, `state_dict` or a finalizer) nobody sees what is captured."""
    guards = torch._C._len_torch_dispatch_stack
    original = torch.cuda.CUDAGraph

    class CUDAGraph(original):  # type: ignore[misc, valid-type]
        def capture_begin(self, *args: Any, **kwargs: Any) -> None:
            if not guards():
                guard.violate("a CUDA graph may only be captured in forward: launch the kernel there")
            super().capture_begin(*args, **kwargs)

    torch.cuda.CUDAGraph = CUDAGraph  # type: ignore[misc]
    torch.cuda.graphs.CUDAGraph = CUDAGraph  # type: ignore[misc]


def _forbid_dispatch_tricks(guard: DispatchGuard) -> None:
    for name in _DISPATCH:
        for place in (torch._C, _python_dispatch):
            _replace_dispatch(guard, place, name, f"torch._C.{name}")
    for name in _MODES:
        _replace_dispatch(guard, _python_dispatch, name, name)
    original = _python_dispatch._disable_current_modes
    refused = _refuse(guard, _ALL_MODES, _NOT_YOURS)

    def disable_current_modes() -> Any:
        printing = _module(_frame(1)) == "torch._tensor_str"
        return original() if printing or _is_traced(guard, _frame(1)) else refused()

    _python_dispatch._disable_current_modes = disable_current_modes
    for module, attribute, name in _borrowed:
        setattr(module, attribute, getattr(_python_dispatch, name, None) or getattr(torch._C, name))


def _replace_dispatch(guard: DispatchGuard, place: Any, name: str, shown: str) -> None:
    original = getattr(place, name, None)
    refused = _refuse(guard, shown, _NOT_YOURS)

    def asked(*args: Any, **kwargs: Any) -> Any:
        assert original is not None
        return original(*args, **kwargs) if _is_traced(guard, _frame(1)) else refused()

    _replace(place, name, asked)


def _is_traced(guard: DispatchGuard, frame: FrameType) -> bool:
    """Whether the compiler of a language asks, which switches modes while it traces."""
    return guard.tracing is not None and guard.tracing.vouches(frame)


def _forbid_replacing_operators(guard: DispatchGuard) -> None:
    """PyTorch's own modules go on registering theirs when they are imported."""
    original = torch.library.Library.__init__

    def init(self: Any, ns: str, *args: Any, **kwargs: Any) -> None:
        if ns in BUILTIN_SPACES and not _is_torch_importing(_frame(1)):
            guard.violate(f"registering operators of {ns} is not allowed: use a namespace of your own")
        original(self, ns, *args, **kwargs)  # type: ignore[no-untyped-call]

    torch.library.Library.__init__ = init  # type: ignore[method-assign]


def _forbid_profiling(guard: DispatchGuard) -> None:
    """A record of what runs is made once, by `activity`; another would end or empty it."""
    refused = partial(_refuse, guard, advice="times and names of kernels are the evaluator's to take")
    for name in _PROFILER:
        for place in (torch._C._autograd, torch.autograd, torch.autograd.profiler):
            _replace(place, name, refused(f"the profiler ({name})"))
    for name in ("start", "stop"):
        _replace(torch.cuda.profiler, name, refused(f"torch.cuda.profiler.{name}"))


def _hide(guard: DispatchGuard) -> None:
    """Foreign functions (BLAS above all is in the process anyway), frames, and this package's own modules."""

    def frame(depth: int = 0) -> FrameType:
        _check_asker(guard, "sys._getframe", _frame(1))
        return _frame(depth + 1)

    sys._getframe = frame
    for name, module in list(sys.modules.items()):
        if name in _REASONS or name.split(".")[0] == _PACKAGE:
            sys.modules[name] = _hidden(guard, name, module)


def _hidden(guard: DispatchGuard, name: str, original: ModuleType) -> ModuleType:
    """In the place of a module: libraries find in it what they need, a submission a refusal."""

    class Hidden(ModuleType):
        def __getattribute__(self, attribute: str) -> Any:
            if attribute not in _FOR_IMPORTS:
                _check_asker(guard, name, _frame(1))
            return getattr(original, attribute)

        def __setattr__(self, attribute: str, value: Any) -> None:
            """A submodule that is imported becomes an attribute of its package."""
            _check_asker(guard, name, _frame(1))
            setattr(original, attribute, value)

    return Hidden(name)


def _check_asker(guard: DispatchGuard, name: str, frame: FrameType) -> None:
    """`frame` is that of whoever uses `name`, or of an import on its behalf."""
    while frame.f_code.co_filename.startswith("<frozen ") and frame.f_back is not None:
        frame = frame.f_back
    if not frame.f_code.co_filename.startswith(_LIBRARIES):
        guard.violate(f"{name} is not allowed: {_REASONS.get(name, _INNER)}")


def _is_torch_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY_FOLDER):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def _guard_threads(guard: DispatchGuard) -> None:
    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        for place in (_thread, threading):
            for spelling in (name, f"_{name}"):
                _wrap_start(guard, place, spelling)


def _wrap_start(guard: DispatchGuard, place: ModuleType, name: str) -> None:
    original = getattr(place, name, None)
    if original is None:
        return

    def start(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def guarded(*inner: Any, **named: Any) -> Any:
            with guard:
                return function(*inner, **named)

        return original(guarded, *args, **kwargs)

    setattr(place, name, start)


def _forbid_host_memory(guard: DispatchGuard) -> None:
    for name in _MEMORY:
        original = getattr(torch.Tensor, name)
        _replace(torch.Tensor, name, _reading(guard, name, original))


def _reading(guard: DispatchGuard, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(*args: Any, **kwargs: Any) -> Any:
        inside = torch._C._len_torch_dispatch_stack() > 0
        if inside and not _module(_frame(1)).startswith(_READERS):
            guard.violate(f"forward() read a tensor's memory by {name}: compute in your own kernel")
        return original(*args, **kwargs)

    return read


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
