"""Parameters of a twin, made without drawing numbers for them: they are the reference's in the end.

The twin takes all that its state names from the judge before it is called, so there the functions of
`torch.nn.init` leave a large tensor as they find it: even with the device's help (see `draws`) a billion numbers
take seconds. Small ones, and what a model draws by other means, are drawn; and all is where a tensor that was
left is none of the state, or the constructor fails.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import init

from . import draws
from .draws import Init
from .reference import seed_process

LARGE = 1 << 20
_DRAW = (*draws.NAMES, "orthogonal_", "sparse_")


def sparingly(
    construct: Callable[..., torch.nn.Module], arguments: Sequence[object], seed: int
) -> torch.nn.Module:
    """The model that `construct` makes of `arguments`, under the present seed or else under `seed`."""
    try:
        with undrawn() as left:
            model = construct(*copy.deepcopy(arguments))  # a constructor may use its lists up
    except Exception:  # a constructor may look at its numbers; it raises anew below if they are not why
        model = None
    if model is not None:
        state = {value.untyped_storage()._cdata for value in _tensors(model)}
        if all(storage.expired() or storage.cdata in state for storage in left):
            return model
    del model
    seed_process(seed)
    return construct(*arguments)


def _tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    return [value for value in model.state_dict().values() if isinstance(value, torch.Tensor)]


def _sparing(draw: Init, left: list[StorageWeakRef]) -> Init:
    @wraps(draw)
    def sparing(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if tensor.numel() < LARGE:
            return draw(tensor, *args, **kwargs)
        left.append(StorageWeakRef(tensor.untyped_storage()))
        return tensor

    return sparing


@contextmanager
def undrawn() -> Iterator[list[StorageWeakRef]]:
    """For the time of the context; what was left."""
    left: list[StorageWeakRef] = []
    originals: dict[str, Init] = {name: getattr(init, name) for name in _DRAW}
    for name, original in originals.items():
        setattr(init, name, _sparing(original, left))
    try:
        yield left
    finally:
        for name, original in originals.items():
            setattr(init, name, original)
