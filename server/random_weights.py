"""Random weights for models of `transformers` whose own are not on this machine.

While the code of a task runs that mentions `transformers`, `from_pretrained` of a model whose weights are not in
the hub's cache builds it from its configuration instead: on the device, in float32, under torch's present seed,
and in evaluation mode, as `from_pretrained` leaves it. Weights that are there are loaded as ever. Judge and twin
do the same; then the twin takes over the judge's numbers.

Beyond what the library draws, matrices but the embeddings are scaled by `GAIN` and vectors get noise of `JITTER`:
with its own, attention is so even that the mean of the values passes for it at a tolerance of 1e-2 (measured on
ELECTRA), and biases of zero and norms of one can be left out. For other tasks nothing is imported or replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from .model_cache import has_weights
from .outside import PACKAGE

GAIN = 2.0
JITTER = 0.1


@contextmanager
def random_weights(source: str, device: torch.device) -> Iterator[None]:
    """For the time of the context, which runs `source` or code defined by it."""
    base = _base() if PACKAGE in source else None
    if base is None:
        yield
        return
    original = base.__dict__["from_pretrained"]

    def from_pretrained(cls: Any, name: Any, *args: Any, **options: Any) -> Any:
        if has_weights(str(name)):
            return original.__func__(cls, name, *args, **options)
        config = options.get("config")
        return _build(cls, cls.config_class.from_pretrained(name) if config is None else config, device)

    base.from_pretrained = classmethod(from_pretrained)
    try:
        yield
    finally:
        base.from_pretrained = original


def _base() -> Any:
    """The base class of all models; None without the package, which the task's own import then says."""
    try:
        return import_module(PACKAGE).PreTrainedModel
    except ImportError:
        return None


def _build(cls: Any, config: Any, device: torch.device) -> Any:
    with torch.no_grad(), device:
        # A copy, as the library notes the dtype in it, and the task's own goes to the submission.
        model = cls._from_config(copy.deepcopy(config), dtype=torch.float32)
        embeddings = {
            id(parameter)
            for module in model.modules()
            if isinstance(module, torch.nn.Embedding)
            for parameter in module.parameters()
        }
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=JITTER)
            elif id(parameter) not in embeddings:
                parameter.mul_(GAIN)
    return model.eval()
