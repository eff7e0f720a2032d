"""The families of strict checks keep what an input shows of itself; an error is told in two parts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernel_env.server import strict
from kernel_env.server.agreement import deviation
from kernel_env.server.domain import Domain, bounded, domain_of, joined
from kernel_env.server.perturbed import perturbed
from kernel_env.server.tf32 import Tf32Products, cut
from kernel_env.server.varied import changes, vary

FLOATS = [name for name in strict.FAMILIES if name != "bounds"]


def varied(family: str, draws: list[torch.Tensor]) -> tuple[torch.Tensor, Domain]:
    domain = joined(*map(domain_of, draws))
    value = draws[0].clone()
    vary(family, [value], [domain])
    return value, domain


@pytest.mark.parametrize("family", FLOATS)
def test_forms_are_kept(family: str) -> None:
    square = [torch.rand(32, 32) for _ in range(2)]
    upper, domain = varied(family, [x.triu() for x in square])
    assert domain.form == "upper"
    assert torch.equal(upper, upper.triu())
    lower, domain = varied(family, [x.tril() for x in square])
    assert domain.form == "lower"
    assert torch.equal(lower, lower.tril())
    symmetric, domain = varied(family, [x + x.T for x in square])
    assert domain.form == "symmetric"
    assert torch.equal(symmetric, symmetric.T)
    rows, domain = varied(family, [x.softmax(1) for x in square])
    assert domain.kind == "simplex"
    assert torch.allclose(rows.sum(1), torch.ones(32), atol=1e-4)
    assert bool((rows >= 0).all())


KEPT = {
    "labels": torch.tensor([1.0, -1.0, -1.0, 1.0]),
    "mask": torch.tensor([True, False, True]),
    "whole numbers": torch.arange(12.0).view(3, 4),
    "a mask of infinities": torch.tensor([0.0, -torch.inf, 0.5]),
    "one number": torch.tensor(0.3),
    "a permutation": torch.tensor([3, 0, 2, 1]),
    "offsets": torch.tensor([0, 2, 2, 7]),
    "a repeated row": torch.rand(4).expand(3, 4),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_has_a_meaning_is_kept(name: str) -> None:
    domain = domain_of(KEPT[name])
    assert domain.kind == "kept"
    assert not any(changes(family, [domain], bounded=False) for family in strict.FAMILIES)


def test_numbers_become_others_of_the_same_layout() -> None:
    domain = domain_of(torch.rand(16, 64)[:, ::2])
    for family in FLOATS:
        value = torch.rand(16, 64)[:, ::2]
        before = value.clone()
        vary(family, [value], [domain])
        assert value.stride() == (64, 2)
        assert not torch.equal(value, before)
        assert bool(torch.isfinite(value).all())


def test_in_range_families_stay_in_range() -> None:
    value, domain = varied("uneven", [torch.rand(100, 100) + 2.0 for _ in range(2)])
    assert domain.low <= float(value.min())
    assert float(value.max()) <= domain.high
    assert float(value[:10].mean() - value[-10:].mean()) != pytest.approx(0.0, abs=0.05)
    assert bounded("return F.binary_cross_entropy(x, y)")
    assert not bounded("return F.binary_cross_entropy_with_logits(x, y)")
    assert [name for name in strict.FAMILIES if changes(name, [domain], bounded=True)] == ["uneven"]


def test_integers_meet_their_bounds() -> None:
    value, _ = varied("bounds", [torch.randint(2, 9, (40, 3)) for _ in range(2)])
    assert set(value.unique().tolist()) == {2, 8}


def test_an_error_is_told_as_factor_and_rest() -> None:
    expected = torch.randn(4000)
    off = deviation(expected * 1.009, expected)
    assert off.scale == pytest.approx(0.009, rel=1e-4)
    assert off.residual < 1e-6
    off = deviation(expected + 0.01 * torch.randn(4000), expected)
    assert off.residual == pytest.approx(0.01, rel=0.1)
    assert off.scale < 1e-3
    assert deviation(torch.zeros(5), torch.zeros(5)).total == 0.0
    assert deviation(torch.ones(5), torch.zeros(5)).total == float("inf")


def test_tf32_has_ten_bits() -> None:
    assert cut(torch.tensor([1.0 + 2**-10])).item() == 1.0 + 2**-10
    assert cut(torch.tensor([1.0 + 2**-11, -1.0 - 2**-11])).tolist() == [1.0, -1.0]
    with torch.no_grad(), Tf32Products() as products:
        exact = torch.rand(8, 8) + torch.rand(8, 8)
        assert not products.seen
        nn.functional.linear(exact, exact)
    assert products.seen


def test_constants_become_numbers_that_seed_and_shape_decide() -> None:
    def norm(seed: int) -> nn.Module:
        with perturbed(seed):
            return nn.BatchNorm1d(64)

    one, same, other = norm(1), norm(1), norm(2)
    plain = nn.BatchNorm1d(64)
    assert torch.equal(one.get_parameter("weight"), same.get_parameter("weight"))
    assert not torch.equal(one.get_parameter("weight"), other.get_parameter("weight"))
    assert 0.1 < float(one.get_parameter("weight").detach().std()) < 0.6
    assert bool((one.get_buffer("running_var") > 0).all())
    assert float(one.get_buffer("running_mean").std()) > 0.1
    assert torch.equal(plain.get_parameter("weight"), torch.ones(64))
    with perturbed(1):
        own = nn.Parameter(torch.ones(64))
        random = nn.Parameter(torch.linspace(0, 1, 64))
        scalar = nn.Parameter(torch.tensor(2.0))
    assert torch.equal(own, one.get_parameter("weight"))
    assert torch.equal(random, torch.linspace(0, 1, 64))
    assert scalar.item() == 2.0
