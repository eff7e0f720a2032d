"""The dispatch guard: what PyTorch operations a candidate may run, seen as they run.

During `forward`, in trials and in timing, and in every Python thread, allocation, fills, views, layout changes and
copies on the device pass; arithmetic, reductions, scalar extraction and copies of device data to the host are
violations, whatever their spelling (operators, methods, `torch.ops`, ATen called from C++ on this thread, the
inside of operators that a submission registers itself). Operations on small host tensors pass while the task
runs on a GPU: an autotuner's statistics are such. In `__init__` anything goes but what `hatches` forbids.

A violation is told the moment it happens, and nothing takes it back. The guard sees neither C++ threads nor C++
that leaves the dispatcher: other layers cover those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from .tracing import Tracing

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
BUILTIN_SPACES = frozenset(name.split("::")[0] for name in torch._C._dispatch_get_all_op_names()) | {"prim"}
_RECORD_CAP = 16
# Bound here, before `hatches` takes them from everybody else.
_push, _pop = torch._C._push_on_torch_dispatch_stack, torch._C._pop_torch_dispatch_stack


class GuardViolation(RuntimeError):
    """The candidate did with PyTorch what its own kernel must do."""


class DispatchGuard(TorchDispatchMode):
    """Active while candidate code runs, on as many threads as enter it. `tell` gets each violation at once."""

    def __init__(self, device: torch.device, tell: Callable[[str], None] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._tell = tell
        self.violations: list[str] = []
        self.tracing: Tracing | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here (see `hatches`), and to load torch's compiler takes each candidate 1.5 s."""
        return False

    def __enter__(self) -> DispatchGuard:
        _push(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _pop(None)

    def violate(self, what: str) -> NoReturn:
        if len(self.violations) < _RECORD_CAP:
            self.violations.append(what)
            if self._tell is not None:
                self._tell(what)
        raise GuardViolation(what)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        space, _, name = func._schema.name.rpartition("::")
        if space not in BUILTIN_SPACES:
            with self:  # what it does inside is seen as well
                return func.redispatch(self._backend(args, kwargs), *args, **kwargs)
        tracing = self.tracing
        if tracing is not None and tracing.active and tracing.contentless(_tensors((*args, *kwargs.values()))):
            result = func(*args, **kwargs)
            if name not in _ALLOWED and not tracing.contentless(_tensors((result,))):
                self.violate(f"{name} in PyTorch made a tensor with contents while a kernel was compiled")
            return result
        if name not in _ALLOWED and not self._on_small_host_tensors(args, kwargs):
            self.violate(
                f"forward() ran {name} in PyTorch; compute it in your own kernel"
                " (only allocation, views and copies on the device are allowed)"
            )
        result = func(*args, **kwargs)
        if self._device.type == "cuda" and self._leaves_device(name, args, kwargs, result):
            self.violate(f"forward() copied device data to the host ({name}); keep the work on the device")
        return result

    def _backend(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch._C.DispatchKeySet:
        """Where an operator's own kernel is registered: below autograd, and below this mode."""
        kinds = {t.device.type for t in _tensors((*args, *kwargs.values()))} or {self._device.type}
        key = torch._C.DispatchKey.CUDA if "cuda" in kinds else torch._C.DispatchKey.CPU
        return torch._C.DispatchKeySet(key)

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
