"""Candidate and twin are made alike: contexts of a kind, the same weights, memory that both can open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernel_env.server import context
from kernel_env.server.alike import match, pace_of
from kernel_env.server.construct import Construction
from kernel_env.server.link import CandidateLink, Ended, TwinLink
from kernel_env.server.reference import Reference
from kernel_env.server.undrawn import LARGE, sparingly, undrawn

from .test_link import Other

CPU = torch.device("cpu")


@pytest.fixture
def sides() -> Iterator[tuple[Other, Other]]:
    both = Other(CandidateLink), Other(TwinLink)
    yield both
    for side in both:
        side.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a device")
def test_without_a_driver_all_is_left_to_luck() -> None:
    assert context.limit() == 0.0
    assert context.pace() == 0.0


def test_two_kinds_are_told_apart_where_there_are_two() -> None:
    seen = [3.9, 4.27, 3.86, 4.0, 4.2, 3.94, 4.22]
    assert context.between(seen) == pytest.approx(4.1)
    assert context.between([pace for pace in seen if pace < 4.1]) == 0.0


def test_a_pace_that_says_nothing_draws_nothing(sides: tuple[Other, Other]) -> None:
    candidate, twin = sides
    assert pace_of(candidate.link) == 0.0
    for pace_us in (0.0, 9.0):
        match(twin.link, pace_us, 1.3)  # type: ignore[arg-type]
    assert [request["op"] for request in twin.asked] == []
    for pace_us in (1.26, 1.34):
        match(twin.link, pace_us, 1.3)  # type: ignore[arg-type]
    assert [(request["op"], request["quick"]) for request in twin.asked] == [("draw", True), ("draw", False)]


def constructed(side: Other, beside: Other | None) -> None:
    reference: Any = SimpleNamespace(
        seed=1, perturbed=False, gain=1.0, precision="fp32", pickled_arguments=lambda: "", device=CPU
    )
    mailbox: Any = SimpleNamespace(
        share_state=lambda: None, state={}, region=SimpleNamespace(fds=(), handle={"size": 1})
    )
    other: Any = beside.link if beside is not None else None
    Construction(side.link, reference, 5.0).finish(mailbox, other)


def test_before_there_is_a_submission_a_fault_is_ours(sides: tuple[Other, Other]) -> None:
    candidate, _ = sides
    candidate.refuses = "pace"
    with pytest.raises(Ended) as end:
        pace_of(candidate.link)
    assert end.value.outcome.kind == "infrastructure"


@pytest.mark.parametrize(
    ("twins", "opens", "kind"),
    [(True, True, "raised"), (True, False, "infrastructure"), (False, True, "raised")],
)
def test_memory_that_only_the_submission_cannot_open_is_its_own_fault(
    sides: tuple[Other, Other], twins: bool, opens: bool, kind: str
) -> None:
    candidate, twin = sides
    candidate.refuses = "open"
    twin.refuses = None if opens else "open"
    with pytest.raises(Ended) as end:
        constructed(candidate, twin if twins else None)
    assert end.value.outcome.kind == kind
    assert end.value.lacking == (kind == "infrastructure")


def test_a_constructor_that_uses_its_arguments_up_leaves_them_to_others() -> None:
    source = """
import torch

class Model(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.first = torch.nn.Linear(sizes.pop(), sizes.pop())

def get_init_inputs():
    return [[2, 3]]
"""
    reference = Reference("user/sizes", source, CPU, 1, later=True)
    before = reference.pickled_arguments()
    reference.construct()
    assert reference.pickled_arguments() == before


@pytest.mark.parametrize(("refusals", "kind"), [(1, None), (2, "out_of_memory")])
def test_a_constructor_that_lacked_memory_gets_another_try(
    sides: tuple[Other, Other], refusals: int, kind: str | None
) -> None:
    candidate, twin = sides
    candidate.refuses, candidate.error, candidate.refusals = "construct", "memory", refusals
    with pytest.raises(Ended) if kind else nullcontext() as end:
        constructed(candidate, twin)
    assert [request["op"] for request in candidate.asked][:3] == ["import", "construct", "construct"]
    assert kind is None or end.value.outcome.kind == kind


def test_parameters_are_left_as_they_are_and_other_numbers_drawn() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(64, 64)
            self.large = torch.nn.Linear(1024, 1024)
            self.norm = torch.nn.LayerNorm(8)
            self.scale = torch.nn.Parameter(torch.randn(8))

    with undrawn():
        weight = torch.nn.init.normal_(torch.full((LARGE,), 7.0))
        model = Model()
    assert weight.unique().tolist() == [7.0]
    assert model.large.weight.shape == (1024, 1024)
    assert model.linear.weight.unique().numel() > 1000
    assert model.norm.weight.tolist() == [1.0] * 8
    assert model.scale.unique().numel() == 8
    assert torch.nn.Linear(1024, 1024).weight.unique().numel() > 1000


def test_what_no_state_hands_over_is_drawn() -> None:
    class Stateless(torch.nn.Module):
        def __init__(self, sizes: list[int]) -> None:
            super().__init__()
            self.large = torch.nn.Linear(sizes.pop(), sizes.pop())
            self.table = torch.nn.init.normal_(torch.full((LARGE,), 7.0))

    class Demanding(torch.nn.Module):
        def __init__(self, sizes: list[int]) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.nn.init.normal_(torch.full((LARGE,), 7.0)))
            if self.table.std() < 0.5:
                raise ValueError("too much alike")

    class Plain(torch.nn.Module):
        def __init__(self, sizes: list[int]) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.nn.init.normal_(torch.full((LARGE,), 7.0)))

    with torch.no_grad():
        for kind in (Stateless, Demanding):
            torch.manual_seed(5)
            expected = kind([1024, 1024])
            torch.manual_seed(5)
            assert torch.equal(sparingly(kind, [[1024, 1024]], 5).table, expected.table)  # type: ignore[arg-type]
        assert sparingly(Plain, [[]], 5).table.unique().tolist() == [7.0]  # type: ignore[operator,union-attr]
