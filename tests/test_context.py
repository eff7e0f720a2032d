"""Candidate and twin are made alike: contexts of a kind, the same weights, memory that both can open."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernel_env.server import context
from kernel_env.server.alike import gap_of, match
from kernel_env.server.construct import Construction
from kernel_env.server.link import CandidateLink, Ended, TwinLink
from kernel_env.server.undrawn import LARGE, undrawn

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
    assert context.gap() == 0.0


def test_a_gap_that_says_nothing_draws_nothing(sides: tuple[Other, Other]) -> None:
    candidate, twin = sides
    assert gap_of(candidate.link) == 0.0
    for gap_us in (0.0, 9.0):
        match(twin.link, gap_us, 1.3)  # type: ignore[arg-type]
    assert [request["op"] for request in twin.asked] == []
    for gap_us in (1.26, 1.4):
        match(twin.link, gap_us, 1.3)  # type: ignore[arg-type]
    assert [(request["op"], request["quick"]) for request in twin.asked] == [("draw", True), ("draw", False)]


def constructed(side: Other, beside: Other) -> None:
    reference: Any = SimpleNamespace(
        seed=1, perturbed=False, gain=1.0, precision="fp32", pickled_arguments=lambda: "", device=CPU
    )
    mailbox: Any = SimpleNamespace(
        share_state=lambda: None, state={}, region=SimpleNamespace(fds=(), handle={"size": 1})
    )
    Construction(side.link, reference, 5.0).finish(mailbox, beside.link)  # type: ignore[arg-type]


def test_before_there_is_a_submission_a_fault_is_ours(sides: tuple[Other, Other]) -> None:
    candidate, _ = sides
    candidate.refuses = "gap"
    with pytest.raises(Ended) as end:
        gap_of(candidate.link)
    assert end.value.outcome.kind == "infrastructure"


@pytest.mark.parametrize("everywhere", [False, True])
def test_memory_that_only_the_submission_cannot_open_is_its_own_fault(
    sides: tuple[Other, Other], everywhere: bool
) -> None:
    candidate, twin = sides
    candidate.refuses = "open"
    twin.refuses = "open" if everywhere else None
    with pytest.raises(Ended) as end:
        constructed(candidate, twin)
    assert end.value.outcome.kind == ("infrastructure" if everywhere else "raised")


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
