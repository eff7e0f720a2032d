"""Large weights, drawn by the device: `torch.nn.init` takes 10 s of a CPU for a billion of them, twice.

In the judge and in each process that runs a submission, for as long as it lives and before any task's or
submission's code is imported, these functions fill a large tensor of the host's with numbers that the device
draws. They follow from the host's generator, so that whoever constructs the same under the same seed gets the
same. Small tensors, and what a model draws by other means, are drawn as always.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature

import torch
from torch.nn import init
from torch.nn.modules import activation, transformer

LARGE = 1 << 22
NAMES = (
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
)
"""Those that draw each number for itself; each takes a `generator`, or none."""
HOLDERS = (init, activation, transformer)
"""Who has some of them by name: a layer of PyTorch's and its like by hand are to draw the same."""

Init = Callable[..., torch.Tensor]


def install(device: torch.device) -> None:
    """Once in a process; on a CPU there is nothing to gain."""
    if device.type != "cpu":
        for name in NAMES:
            drawn = drawing(getattr(init, name), device)
            for holder in HOLDERS:
                if name in vars(holder):
                    setattr(holder, name, drawn)


def drawing(draw: Init, device: torch.device) -> Init:
    """`draw`, which has the device do it where that is worth it and the caller brings no generator."""

    form = signature(draw)

    @wraps(draw)
    def drawn(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        given = form.bind(tensor, *args, **kwargs)
        if not _worth_it(tensor) or given.arguments.get("generator") is not None:
            return draw(tensor, *args, **kwargs)
        seed = int(torch.randint(1 << 62, (), device="cpu"))
        there = torch.empty_like(tensor, device=device, requires_grad=False)
        given.arguments.update(tensor=there, generator=torch.Generator(device).manual_seed(seed))
        draw(*given.args, **given.kwargs)
        with torch.no_grad():
            tensor.copy_(there)
        return tensor

    return drawn


def _worth_it(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_floating_point()
    return plain and tensor.device.type == "cpu" and tensor.numel() >= LARGE
