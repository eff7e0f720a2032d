"""Constant parameters hold random numbers at construction, as trained ones would.

A norm's weight is all ones and its bias all zeros when it is made, so a submission could leave both out. Under
strict checks judge, twin and candidate construct within `perturbed`: a parameter of one constant gets noise round
it while the constructor runs, so that whatever a constructor derives from its weights (packed, folded,
transposed) is derived from what counts. The noise follows from seed, shape and constant alone: who creates layers
in another order, or holds the parameters themselves, gets the same. Running statistics of a batch norm are moved,
too; variances stay positive. Numbers without dimensions keep their value, which the constructor knows from its
arguments.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import activation
from torch.nn.modules.batchnorm import _NormBase

SPREAD = 0.3
LARGEST = 1 << 22
"""Larger constant parameters than any layer has keep their constant: looking at them takes time."""

_INITIALISERS = ("ones_", "zeros_", "constant_")


@contextmanager
def perturbed(seed: int, gain: float = 1.0) -> Iterator[None]:
    """For the time of a constructor. Nobody learns anything from `seed`: it is the constructor's own.

    `gain` makes the weights that linear layers and convolutions draw larger: as torch draws them, a deep network
    without norms hardly lets its input through.
    """
    with ExitStack() as stack:

        def replace(owner: Any, name: str, function: Any) -> None:
            stack.callback(setattr, owner, name, owner.__dict__[name])
            setattr(owner, name, function)

        for name in _INITIALISERS:
            replace(nn.init, name, _initialiser(getattr(nn.init, name), seed))
        replace(activation, "constant_", _initialiser(nn.init.constant_, seed))  # imported there by name
        replace(nn.init, "kaiming_uniform_", _larger(nn.init.kaiming_uniform_, gain))
        replace(nn.Parameter, "__new__", _parameter(nn.Parameter.__new__, seed))
        replace(_NormBase, "reset_running_stats", _statistics(_NormBase.reset_running_stats, seed))
        yield


def _initialiser(original: Callable[..., torch.Tensor], seed: int) -> Callable[..., torch.Tensor]:
    def initialise(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return _move(original(tensor, *args, **options), seed)

    return initialise


def _larger(original: Callable[..., torch.Tensor], gain: float) -> Callable[..., torch.Tensor]:
    """Only as the layers themselves call it, with a slope of the root of five."""

    def initialise(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        drawn = original(tensor, *args, **options)
        if gain != 1.0 and options.get("a") == math.sqrt(5):
            with torch.no_grad():
                drawn.mul_(gain)
        return drawn

    return initialise


def _parameter(original: Callable[..., Any], seed: int) -> Any:
    def new(cls: Any, data: torch.Tensor | None = None, requires_grad: bool = True) -> Any:
        created = original(cls, data, requires_grad)
        _move(created, seed)
        return created

    return staticmethod(new)


def _statistics(original: Callable[[Any], None], seed: int) -> Callable[[Any], None]:
    def reset(self: Any) -> None:
        original(self)
        if self.running_mean is not None:
            _move(self.running_mean, seed)
            _move(self.running_var, seed)
            self.running_var.clamp_(min=0.1)

    return reset


def _move(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Noise round the constant that fills the tensor, in place; other tensors stay."""
    if not _constant(tensor):
        return tensor
    with torch.no_grad():
        value = float(tensor.reshape(-1)[0])
        key = hashlib.sha256(f"{seed} {tuple(tensor.shape)} {value:.9g}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "big"))
        noise = torch.randn(tensor.shape, generator=generator, device="cpu")
        tensor.copy_(value + SPREAD * (abs(value) or 1.0) * noise)
    return tensor


def _constant(tensor: torch.Tensor) -> bool:
    if tensor.device.type == "meta" or not tensor.dtype.is_floating_point or not 1 < tensor.numel() <= LARGEST:
        return False
    flat = tensor.detach().reshape(-1)
    return bool(torch.isfinite(flat[0])) and bool((flat == flat[0]).all())
