"""How tensors lie in a region, and how nested arguments are told apart from their tensors.

`flatten` turns nested lists, tuples and dicts into a JSON skeleton and a flat list of tensors; `place`
gives each tensor a place; `store` and `load` move and map raw storage, so that strides survive and every
dtype reaches both sides untouched. Only the judge decides a layout; nothing here trusts a candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .memory import ALIGNMENT, Region


class LayoutError(TypeError):
    """A value that can't be handed to another process."""


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies: shape and stride in elements, offset in bytes from the region's start."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def span(self) -> int:
        """Elements from the first to the last that the strides reach."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    def to_json(self) -> list[Any]:
        return [list(self.shape), list(self.stride), self.dtype, self.offset]

    @classmethod
    def from_json(cls, value: list[Any]) -> Slot:
        shape, stride, dtype, offset = value
        return cls(tuple(shape), tuple(stride), dtype, offset)


_PLAIN: dict[type, Callable[[Any], Any]] = {int: int.__pos__, float: float.__pos__, str: str.__str__}
"""The exact value of a number or text, whatever its class overrides."""


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def flatten(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """A JSON skeleton of `value` and its tensors in order; raises `LayoutError` for other objects.

    No method of `value`'s own runs here: what a submission returns is read, not asked.
    """
    tensors: list[torch.Tensor] = []
    return _walk(value, tensors), tensors


def _walk(node: Any, tensors: list[torch.Tensor]) -> Any:
    # Not a closure of `flatten`: a recursive one is a cycle, which keeps the tensors alive until a collection.
    kind = type(node)
    if issubclass(kind, torch.Tensor):
        tensors.append(node)
        return {"tensor": len(tensors) - 1}
    if issubclass(kind, (list, tuple)):
        own = tuple if issubclass(kind, tuple) else list
        return {own.__name__: [_walk(item, tensors) for item in own.__iter__(node)]}
    if issubclass(kind, dict) and all(type(key) is str for key in dict.keys(node)):
        content = dict(dict.items(node))
        walked = {key: _walk(content[key], tensors) for key in sorted(content)}  # tensors in an order of their own
        return {"dict": {key: walked[key] for key in content}}
    if node is None or kind is bool:
        return {"value": node}
    for plain, value in _PLAIN.items():
        if issubclass(kind, plain):
            return {"value": value(node)}
    raise LayoutError(f"{kind.__name__} is neither a tensor nor a plain value")


def unflatten(skeleton: Any, tensors: list[torch.Tensor]) -> Any:
    (kind, content), *_ = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: unflatten(item, tensors) for key, item in content.items()}
    if kind in ("list", "tuple"):
        items = [unflatten(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    return content


def place(tensors: list[torch.Tensor], start: int = 0, dense: bool = False) -> tuple[list[Slot], int]:
    """A slot for each tensor from byte `start` on, and the end. `dense` drops strides (outputs)."""
    slots = []
    offset = start
    for tensor in tensors:
        if tensor.layout is not torch.strided or any(step < 0 for step in tensor.stride()):
            raise LayoutError(f"a tensor of layout {tensor.layout} can't be shared")
        stride = contiguous_stride(tuple(tensor.shape)) if dense else tuple(tensor.stride())
        slot = Slot(tuple(tensor.shape), stride, dtype_name(tensor.dtype), offset)
        slots.append(slot)
        size = slot.span * tensor.dtype.itemsize
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return slots, offset


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= max(size, 1)
    return tuple(stride)


def raw(tensor: torch.Tensor, slot: Slot) -> torch.Tensor:
    """The tensor's storage from its first to its last element, flat."""
    return tensor.as_strided((slot.span,), (1,)) if slot.span else tensor.reshape(-1)


def store(tensors: list[torch.Tensor], slots: list[Slot], region: Region) -> None:
    for tensor, slot in zip(tensors, slots, strict=True):
        region.typed(slot.offset, slot.span, tensor.dtype).copy_(raw(tensor, slot))


def load(slots: list[Slot], region: Region) -> list[torch.Tensor]:
    """Tensors over the region's own memory, with the slots' shapes and strides."""
    return [
        region.typed(slot.offset, slot.span, slot.torch_dtype).as_strided(slot.shape, slot.stride)
        if slot.span
        else torch.empty(slot.shape, dtype=slot.torch_dtype, device=region.data.device)
        for slot in slots
    ]
