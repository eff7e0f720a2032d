"""Parameters of a twin, made without drawing numbers for them: they are the reference's in the end.

For layers of a billion weights `torch.nn.init` takes 10 s of a CPU, three times: in the judge, in the candidate
and in the twin. The twin takes all that its state names from the judge before it is called, so there these
functions leave a tensor as they find it. What a model draws by other means is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn import init

_DRAW = (
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
)


def _left(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    return tensor


@contextmanager
def undrawn() -> Iterator[None]:
    """For the time of the context."""
    originals: dict[str, Callable[..., torch.Tensor]] = {name: getattr(init, name) for name in _DRAW}
    for name in _DRAW:
        setattr(init, name, _left)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(init, name, original)
