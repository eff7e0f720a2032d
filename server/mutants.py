"""Wrong answers made from a reference, to find out which checks accept them on which tasks.

For audits of tasks only, in a process that holds the reference: nothing here is reachable by a submission. A
mutant answers a trial's inputs; it may use what no cheat could have, such as the right answer's mean, so that a
task on which it fails is safe from the cheat that it stands for. `None` instead of answers: the mutant means
nothing for the task.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .layout import flatten
from .reference import Reference, TaskFault, task_code

TILE = 16
FACTOR = 1.009

Answers = list[torch.Tensor]


@dataclass(frozen=True)
class Trial:
    """One trial: inputs as drawn, what is expected, and what was expected for other inputs of the same family."""

    reference: Reference
    inputs: list[Any]
    expected: Answers
    previous: Answers


Mutant = Callable[[Trial], Answers | None]


def _each(change: Callable[[torch.Tensor], torch.Tensor | None]) -> Mutant:
    """The same change of every output; outputs that it means nothing for stay right, unless it is all of them."""

    def answer(trial: Trial) -> Answers | None:
        changed = [change(output) for output in trial.expected]
        if all(each is None for each in changed):
            return None
        pairs = zip(changed, trial.expected, strict=True)
        return [right if each is None else each for each, right in pairs]

    return answer


def _constant(trial: Trial) -> Answers:
    """Each output's own mean; of a single number, which would be right, the one for other inputs."""
    pairs = zip(trial.expected, trial.previous, strict=True)
    return [
        torch.full_like(right, (right if right.numel() > 1 else other).double().mean().item())
        for right, other in pairs
    ]


def _last(share: float) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Nothing in the last share of the elements."""

    def change(output: torch.Tensor) -> torch.Tensor | None:
        if output.numel() < 2:
            return None
        changed = output.clone()
        changed.view(-1)[-math.ceil(share * output.numel()) :] = 0
        return changed

    return change


def _factor(output: torch.Tensor) -> torch.Tensor | None:
    return output * FACTOR if output.dtype.is_floating_point else None


def _transposed(output: torch.Tensor) -> torch.Tensor | None:
    if output.dim() < 2 or min(output.shape[-2:]) < 2:
        return None
    return output.mT.reshape(output.shape).contiguous()


def _tile(output: torch.Tensor) -> torch.Tensor | None:
    """The last tile of each row holds the one before it."""
    if not output.dim() or output.shape[-1] < 2:
        return None
    width = min(TILE, output.shape[-1] // 2)
    changed = output.clone()
    changed[..., -width:] = output[..., -2 * width : -width]
    return changed


def _previous(trial: Trial) -> Answers:
    return trial.previous


def _identity(trial: Trial) -> Answers | None:
    """The first input of an output's form, in the place of each output."""
    given = flatten(trial.inputs)[1]
    found = [
        next((one for one in given if one.shape == output.shape and one.dtype == output.dtype), None)
        for output in trial.expected
    ]
    if any(one is None for one in found):
        return None
    return [one.contiguous() for one in found if one is not None]


def _without_biases(trial: Trial) -> Answers | None:
    """Those of norms stay, as long as there are others: in front of a norm a bias may be of no effect."""
    biases = [
        name for name, _ in trial.reference.model.named_parameters() if name.rpartition(".")[2].endswith("bias")
    ]
    norms = {name for name, _ in _norms(trial.reference.model)}
    return _with(trial, dict.fromkeys([name for name in biases if name not in norms] or biases, 0.0))


def _plain_norms(trial: Trial) -> Answers | None:
    """Norms as they are made, with weights of one and biases of zero."""
    return _with(trial, dict(_norms(trial.reference.model)))


def _norms(model: Any) -> Iterator[tuple[str, float]]:
    """Their parameters, with what they are made of."""
    for prefix, module in model.named_modules():
        if "Norm" in type(module).__name__:
            for name, _ in module.named_parameters(recurse=False):
                yield f"{prefix}.{name}".lstrip("."), float(name == "weight")


def _with(trial: Trial, values: dict[str, float]) -> Answers | None:
    """The reference with other parameters."""
    if not values:
        return None
    model = copy.deepcopy(trial.reference.model)
    for name, value in values.items():
        model.get_parameter(name).data.fill_(value)
    return _run(model, trial.inputs)


def _arithmetic(dtype: torch.dtype) -> Mutant:
    """The task in 16 bits; it means nothing where that is the task's own or where it does not run."""

    def answer(trial: Trial) -> Answers | None:
        tensors = [*flatten(trial.inputs)[1], *trial.reference.state().values()]
        if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in tensors):
            return None
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            answers = _run(
                copy.deepcopy(trial.reference.model).to(dtype), [_cast(value, dtype) for value in trial.inputs]
            )
        except TaskFault:
            return None
        finally:
            torch.set_default_dtype(before)
        if [answer.shape for answer in answers] != [right.shape for right in trial.expected]:
            return None
        return [one.to(right.dtype) for one, right in zip(answers, trial.expected, strict=True)]

    return answer


def _prefix(axis: int) -> Mutant:
    """Reads the first half of each floating-point input along an axis, twice."""

    def answer(trial: Trial) -> Answers | None:
        cut = [_repeat_half(value, axis) for value in trial.inputs]
        changed = any(one is not value for one, value in zip(cut, trial.inputs, strict=True))
        return _run(copy.deepcopy(trial.reference.model), cut) if changed else None

    return answer


def _repeat_half(value: Any, axis: int) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    if value.dim() <= axis or value.shape[axis] < 2:
        return value
    half = value.narrow(axis, 0, (value.shape[axis] + 1) // 2)
    return torch.cat([half, half], axis).narrow(axis, 0, value.shape[axis])


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype.is_floating_point else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def _run(model: Any, inputs: Sequence[Any]) -> Answers:
    with task_code("forward"), torch.no_grad():
        return [output.contiguous() for output in flatten(model(*inputs))[1]]


MUTANTS: dict[str, Mutant] = {
    "zeros": _each(torch.zeros_like),
    "constant": _constant,
    "previous output": _previous,
    "identity": _identity,
    "half": _each(_last(0.5)),
    "last 1 %": _each(_last(0.01)),
    "x 1.009": _each(_factor),
    "transposed": _each(_transposed),
    "off-by-one tile": _each(_tile),
    "dropped bias": _without_biases,
    "plain norms": _plain_norms,
    "bf16 arithmetic": _arithmetic(torch.bfloat16),
    "fp16 arithmetic": _arithmetic(torch.float16),
    "prefix of axis 0": _prefix(0),
    "prefix of axis 1": _prefix(1),
    "prefix of axis 2": _prefix(2),
}
