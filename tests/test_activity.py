"""What is told of a device's activities, from events such as Kineto has them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kernel_env.server.activity import report
from kernel_env.server.provenance import NAMES_CAP, Record

MARK = "at::cuda::(anonymous namespace)::spin_kernel(long)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)"


@dataclass(frozen=True)
class Event:
    """Of one launch, in microseconds."""

    text: str
    start: int
    length: int

    def name(self) -> str:
        return self.text

    def start_ns(self) -> int:
        return self.start * 1000

    def end_ns(self) -> int:
        return (self.start + self.length) * 1000

    def duration_ns(self) -> int:
        return self.length * 1000


def told(*events: Event, marks: int = 2, origin: str = "triton") -> Record:
    ends = [Event(MARK, 0, 1), *[Event(MARK, 10_000, 1)] * (marks - 1)] if marks else []
    return Record.model_validate(report([*ends, *events], 2, lambda name: origin))


def test_launches_are_added_up_by_name() -> None:
    record = told(Event("mine", 10, 500), Event("mine", 600, 500), Event("other", 1200, 100))
    assert record.complete
    assert [(k.name, k.launches, k.ms) for k in record.kernels] == [("mine", 2, 1.0), ("other", 1, 0.1)]
    assert record.busy_ms == record.work_ms == pytest.approx(1.1)


def test_what_runs_side_by_side_is_busy_once() -> None:
    record = told(Event("mine", 10, 500), Event("mine", 100, 500), Event(FILL, 2000, 300))
    assert record.work_ms == pytest.approx(0.59)
    assert record.busy_ms == pytest.approx(0.89)


@pytest.mark.parametrize("marks", [0, 1])
def test_without_both_marks_it_is_not_whole(marks: int) -> None:
    assert not told(Event("mine", 10, 500), marks=marks).complete


def test_marks_of_the_submissions_own_are_work() -> None:
    assert [kernel.name for kernel in told(marks=3).kernels] == [MARK]


def test_names_are_told_demangled_and_capped() -> None:
    record = told(*[Event(f"kernel{i}", 10 * i, 5) for i in range(NAMES_CAP + 10)], Event("_Z4minePf", 0, 9))
    assert record.kernels[0].name == "mine(float*)"
    assert len(record.kernels) == NAMES_CAP
    assert record.rest_ms == pytest.approx(11 * 0.005)
