"""Weights that another generator draws are weights as always: the seed decides, small ones are left alone."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch.nn import init

from kernel_env.server import draws

CPU = torch.device("cpu")
SIDE = math.isqrt(draws.LARGE)


def drawn(name: str, side: int = SIDE, seed: int = 7, times: int = 1, **options: object) -> torch.Tensor:
    draw = draws.drawing(getattr(init, name), CPU)
    torch.manual_seed(seed)
    for _ in range(times):
        tensor = torch.nn.Parameter(torch.zeros(side, side))
        assert draw(tensor, **options) is tensor
    return tensor.detach()


@pytest.mark.parametrize("name", draws.NAMES)
def test_the_seed_decides(name: str) -> None:
    first = drawn(name)
    assert torch.equal(first, drawn(name))
    assert not torch.equal(first, drawn(name, seed=8))
    assert not torch.equal(first, drawn(name, times=2))


def test_what_is_drawn_is_what_was_asked_for() -> None:
    bound = 1 / math.sqrt(SIDE)
    weights = drawn("kaiming_uniform_", a=math.sqrt(5))
    assert 0.99 * bound < weights.max() <= bound
    assert -bound <= weights.min() < -0.99 * bound
    assert abs(weights.mean()) < 1e-3 * bound
    assert abs(drawn("normal_", mean=3.0, std=0.5).std() - 0.5) < 1e-2


def test_small_ones_are_drawn_as_always() -> None:
    torch.manual_seed(7)
    expected = torch.empty(8, 8).uniform_()
    assert torch.equal(drawn("uniform_", side=8), expected)


def test_no_generator_may_be_said_by_position() -> None:
    draw = draws.drawing(init.uniform_, CPU)
    torch.manual_seed(7)
    assert torch.equal(draw(torch.empty(SIDE, SIDE), 0.0, 1.0, None), drawn("uniform_"))


def test_whoever_of_pytorchs_layers_has_them_by_name_is_known() -> None:
    layers = [module for name, module in sys.modules.items() if name.startswith("torch.nn.")]
    names = set(draws.NAMES)
    holders = {module.__name__ for module in layers if names & {*vars(module)}}
    assert holders == {holder.__name__ for holder in draws.HOLDERS}


def test_a_generator_of_the_caller_is_used() -> None:
    first, second = (drawn("uniform_", seed=s, generator=torch.Generator().manual_seed(1)) for s in (7, 8))
    assert torch.equal(first, second)
