"""The dispatch guard: what PyTorch operations a candidate may run, seen as they run.

During `forward`, in trials and in timing, allocation, fills, views, layout changes and copies on the device
pass; arithmetic, reductions, scalar extraction and copies of device data to the host are violations, whatever
their spelling (operators, methods, `torch.ops`, ATen called from C++ on this thread). Operations on small
host tensors pass while the task runs on a GPU: an autotuner's statistics are such. In `__init__` anything goes
but compiling, tracing and capturing, which are violations in every phase.

It sees the calling thread only, not C++ that leaves the dispatcher, and not the inside of operators that a
submission registers itself, which pass: other layers cover those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATE = """
empty empty_strided empty_like empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones
ones_like new_ones full full_like new_full zero_ fill_ zero fill scalar_tensor arange resize_ set_ pin_memory
_pin_memory record_stream
"""
_LAYOUT = """
view _unsafe_view reshape _reshape_alias as_strided as_strided_ alias detach detach_ permute transpose
transpose_ t t_ numpy_T mT expand expand_as view_as squeeze squeeze_ unsqueeze unsqueeze_ slice select split
split_with_sizes unbind narrow chunk unfold diagonal movedim swapaxes flatten unflatten view_as_real
view_as_complex real imag contiguous clone copy_ copy _to_copy to lift lift_fresh lift_fresh_copy
constant_pad_nd cat stack repeat tile flip roll pixel_shuffle pixel_unshuffle
is_same_size sym_size sym_stride sym_numel sym_storage_offset is_contiguous size stride
is_non_overlapping_and_dense prim_layout dim numel
"""
_ALLOWED = frozenset((_ALLOCATE + _LAYOUT).split())
_HOST_ELEMENTS = 1 << 16
# This module is imported before any submission: an operator namespace that appears later is the submission's own.
_BUILTIN_SPACES = frozenset(name.split("::")[0] for name in torch._C._dispatch_get_all_op_names())
_RECORD_CAP = 16


class GuardViolation(RuntimeError):
    """The candidate did with PyTorch what its own kernel must do."""


class DispatchGuard(TorchDispatchMode):
    """Active while candidate code runs. `violations` survives a candidate that swallows the exception."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self.constructing = False
        self.violations: list[str] = []

    def violate(self, what: str) -> NoReturn:
        if len(self.violations) < _RECORD_CAP:
            self.violations.append(what)
        raise GuardViolation(what)

    @contextmanager
    def construction(self) -> Iterator[None]:
        self.constructing = True
        try:
            yield
        finally:
            self.constructing = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.constructing:
            return func(*args, **kwargs)
        space, _, name = func._schema.name.rpartition("::")
        if space not in _BUILTIN_SPACES:
            return func(*args, **kwargs)
        if name not in _ALLOWED and not self._on_small_host_tensors(args, kwargs):
            self.violate(
                f"forward() ran {name} in PyTorch; compute it in your own kernel"
                " (only allocation, views and copies on the device are allowed)"
            )
        result = func(*args, **kwargs)
        if self._device.type == "cuda" and self._leaves_device(name, args, kwargs, result):
            self.violate(f"forward() copied device data to the host ({name}); keep the work on the device")
        return result

    def _on_small_host_tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self._device.type != "cuda":
            return False
        tensors = list(_tensors(args)) + list(_tensors(tuple(kwargs.values())))
        return all(t.device.type == "cpu" and t.numel() <= _HOST_ELEMENTS for t in tensors) and (
            bool(tensors) or torch.device(kwargs.get("device") or "cpu").type == "cpu"
        )

    @staticmethod
    def _leaves_device(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        if name not in ("copy_", "copy", "_to_copy", "to"):
            return False
        source = args[1] if name in ("copy_", "copy") else args[0]
        return (
            isinstance(source, torch.Tensor)
            and isinstance(result, torch.Tensor)
            and source.device.type == "cuda"
            and result.device.type == "cpu"
        )


def _tensors(values: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(tuple(value))


def forbid_graphs(guard: DispatchGuard) -> None:
    """Replace what compiles, traces or captures the reference's own operations by a violation."""

    def refuse(name: str) -> Callable[..., NoReturn]:
        def refused(*args: Any, **kwargs: Any) -> NoReturn:
            guard.violate(f"{name} is not allowed: write the kernel yourself")

        return refused

    torch.compile = refuse("torch.compile")
    for name in ("trace", "script", "freeze", "optimize_for_inference"):
        setattr(torch.jit, name, refuse(f"torch.jit.{name}"))
    if hasattr(torch.cuda, "CUDAGraph"):
        _forbid_capture_in_construction(guard)


def _forbid_capture_in_construction(guard: DispatchGuard) -> None:
    original = torch.cuda.CUDAGraph

    class CUDAGraph(original):  # type: ignore[misc, valid-type]
        def capture_begin(self, *args: Any, **kwargs: Any) -> None:
            if guard.constructing:
                guard.violate("a CUDA graph captured in __init__ is not allowed: launch the kernel in forward")
            super().capture_begin(*args, **kwargs)

    torch.cuda.CUDAGraph = CUDAGraph  # type: ignore[misc]
    torch.cuda.graphs.CUDAGraph = CUDAGraph  # type: ignore[misc]
