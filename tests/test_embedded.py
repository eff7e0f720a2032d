"""The embedded tasks run, repeat themselves, and refuse the answers that need no kernel.

Each task is run on the CPU at its CPU size. A trivial answer counts as refused when some tensor of the
output is off by more than the default tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernel_env.server.config import Settings
from kernel_env.server.tasks import TaskSet

SETTINGS = Settings()
TASKS = TaskSet.load(SETTINGS)

Tensors = tuple[torch.Tensor, ...]


class Reference:
    """A task's model with its weights from one seed, called on inputs from another."""

    def __init__(self, task_id: str, weights_seed: int = 0) -> None:
        self.namespace: dict[str, Any] = {"__name__": "task"}
        exec(compile(TASKS.get(task_id).source, task_id, "exec"), self.namespace)
        torch.manual_seed(weights_seed)
        self.model = self.namespace["Model"](*self.namespace["get_init_inputs"]())
        self._outputs: dict[int, Tensors] = {}

    def inputs(self, seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        return list(self.namespace["get_inputs"]())

    def __call__(self, inputs: list[torch.Tensor]) -> Tensors:
        with torch.no_grad():
            output = self.model(*inputs)
        return output if isinstance(output, tuple) else (output,)

    def outputs(self, seed: int) -> Tensors:
        """For the inputs of this seed, computed once; not to be written to."""
        if seed not in self._outputs:
            self._outputs[seed] = self(self.inputs(seed))
        return self._outputs[seed]


def close(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(got.float(), expected.float(), atol=SETTINGS.atol, rtol=SETTINGS.rtol)


def zeros(output: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(output)


def mean(output: torch.Tensor) -> torch.Tensor:
    return torch.full_like(output, output.float().mean().item())


def first_row(output: torch.Tensor) -> torch.Tensor:
    return output[:1].expand_as(output)


def zeros_at_the_end(output: torch.Tensor) -> torch.Tensor:
    flat = output.flatten().clone()
    flat[-max(1, flat.numel() // 100) :] = 0
    return flat.view_as(output)


@pytest.fixture(scope="module", params=TASKS.ids())
def reference(request: pytest.FixtureRequest) -> Reference:
    return Reference(request.param)


def test_there_are_enough_tasks_on_each_level() -> None:
    levels = [task.level for task in TASKS.all()]
    assert len(levels) >= 32
    assert {level: levels.count(level) >= 8 for level in set(levels)} == {1: True, 2: True, 3: True}
    assert not [task.id for task in TASKS.all() if task.fault]


def test_outputs_are_finite_tensors_that_repeat(reference: Reference) -> None:
    first, second = reference.outputs(1), reference(reference.inputs(1))
    assert all(torch.isfinite(tensor.float()).all() for tensor in first)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_inputs_are_not_changed(reference: Reference) -> None:
    inputs = reference.inputs(1)
    before = [tensor.clone() for tensor in inputs]
    reference(inputs)
    assert all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))


@pytest.mark.parametrize("answer", [zeros, mean, first_row, zeros_at_the_end])
def test_answers_without_work_are_wrong(
    reference: Reference, answer: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    for tensor in reference.outputs(1):
        assert not close(answer(tensor), tensor)


def test_copies_of_an_input_are_wrong(reference: Reference) -> None:
    inputs = reference.inputs(1)
    output = reference.outputs(1)[0]
    alike = [tensor for tensor in inputs if tensor.shape == output.shape and tensor.dtype == output.dtype]
    assert not any(close(tensor, output) for tensor in alike)


def test_outputs_of_other_inputs_are_wrong(reference: Reference) -> None:
    for stale, fresh in zip(reference.outputs(1), reference(reference.inputs(2)), strict=True):
        assert not close(stale, fresh)


@pytest.mark.parametrize("task_id", TASKS.ids())
def test_outputs_depend_on_the_weights(task_id: str) -> None:
    one, other = Reference(task_id), Reference(task_id, weights_seed=1)
    inputs = one.inputs(1)
    changed = not all(close(a, b) for a, b in zip(one(inputs), other(inputs), strict=True))
    assert changed == bool(list(one.model.parameters()))
