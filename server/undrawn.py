"""Parameters of a twin, made without drawing numbers for them: they are the reference's in the end.

For layers of a billion weights `torch.nn.init` takes 10 s of a CPU, three times: in the judge, in the candidate
and in the twin. The twin takes all that its state names from the judge before it is called, so there these
functions leave a large tensor as they find it. Small ones, and what a model draws by other means, are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import torch
from torch.nn import init

LARGE = 1 << 20
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


Init = Callable[..., torch.Tensor]


def _sparing(draw: Init) -> Init:
    @wraps(draw)
    def sparing(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        return tensor if tensor.numel() >= LARGE else draw(tensor, *args, **kwargs)

    return sparing


@contextmanager
def undrawn() -> Iterator[None]:
    """For the time of the context."""
    originals: dict[str, Init] = {name: getattr(init, name) for name in _DRAW}
    for name, original in originals.items():
        setattr(init, name, _sparing(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(init, name, original)
