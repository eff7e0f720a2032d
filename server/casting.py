"""The precision that a task runs in: its weights, floating-point inputs and constructor's tensors in one dtype.

"fp32" leaves a task as its file makes it, which for KernelBench's is 32 bits. "fp16" and "bf16" cast whatever is
floating point, once it is made; integers, booleans and complex numbers stay. The process's default dtype stays as
well: a reference that mixes its inputs with tensors that its `forward` makes may not run in 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def cast(value: Any, precision: str) -> Any:
    """Nested lists, tuples and dicts with their tensors cast; whatever else is in them stays."""
    dtype = _DTYPES.get(precision)
    return value if dtype is None else mapped(value, lambda tensor: tensor.to(dtype))


def cast_model(model: Any, precision: str, attributes: bool = False) -> Any:
    """Parameters and buffers, in place; of a task's own model also tensors that are modules' `attributes`."""
    if precision == "fp16":
        model = model.half()
    if precision == "bf16":
        model = model.bfloat16()
    dtype = _DTYPES.get(precision)
    return _with_attributes(model, dtype) if attributes and dtype else model


def widen_model(model: Any) -> Any:
    """A task's own model back in 32 bits."""
    return _with_attributes(model.float(), torch.float32)


def _with_attributes(model: Any, dtype: torch.dtype) -> Any:
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                setattr(module, name, value.to(dtype))
    return model


def cast_fake(model: Any, precision: str) -> Any:
    """The same of a model whose tensors are fake, which torch can't cast in place; parameters are new objects."""
    dtype = _DTYPES.get(precision)
    for module in model.modules() if dtype else ():
        for held in (module._parameters, module._buffers):
            for name, value in held.items():
                if value is not None and value.dtype.is_floating_point:
                    narrow = value.detach().to(dtype)
                    held[name] = torch.nn.Parameter(narrow, False) if held is module._parameters else narrow
    return model


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Nested arguments with `change` done to each floating-point tensor."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.dtype.is_floating_point else value
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return value


def smallest(dtype: torch.dtype) -> float:
    """The least positive number of a floating-point dtype."""
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps
