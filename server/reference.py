"""The trusted side of a task: builds its `Model`, draws its inputs, computes what is expected.

Lives in the judge only. Task files are trusted code and are executed as modules in a namespace of their own.
Inputs are made on the device, under a seed that no candidate learns; modules keep the mode they are
constructed in; everything runs under `no_grad`.
"""

from __future__ import annotations

import base64
import copy
import linecache
import pickle
import random
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy
import torch

from .casting import cast, cast_model, mapped, widen_model
from .extras import extras_of
from .families import INVARIANTS, Family, transform
from .layout import Slot, flatten, place
from .perturbed import perturbed
from .random_weights import random_weights

ARGUMENTS_CAP = 16 << 20


class TaskFault(RuntimeError):
    """The task itself can't be run here: says nothing about a submission."""


class Reference:
    """One task on one device, constructed under `seed`, with other parameters on request (see `perturbed`).

    All that it gives is in `precision` (see `casting`). `later`: the model is made when `construct` is called.
    """

    def __init__(
        self,
        task_id: str,
        source: str,
        device: torch.device,
        seed: int,
        perturb: bool = False,
        gain: float = 1.0,
        precision: str = "fp32",
        later: bool = False,
    ) -> None:
        self.device = device
        self.seed = seed
        self.perturbed = perturb
        self.gain = gain
        self.precision = precision
        self.extras = extras_of(task_id, source)
        self._task_id = task_id
        self._wide: Any = None
        self._source = source
        with random_weights(source, device):
            self._module = execute(task_id, source)
            with self._constructing():
                seed_all(seed)
                self.arguments = list(cast(list(self._module.get_init_inputs()), precision))
        if not later:
            self.construct()

    def construct(self) -> None:
        """Make the model; raises `TaskFault`."""
        with random_weights(self._source, self.device), self._constructing():
            seed_all(self.seed)
            with perturbed(self.seed, self.gain) if self.perturbed else nullcontext():
                own = copy.deepcopy(self.arguments)  # a constructor may use its lists up
                model = self._module.Model(*self._on_device(own))
            self.model: Any = cast_model(model.to(self.device), self.precision, attributes=True)

    @contextmanager
    def _constructing(self) -> Iterator[None]:
        try:
            with torch.no_grad():
                yield
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a task file may raise anything
            message = f"task {self._task_id} can't be constructed: {type(error).__name__}: {error}"
            raise TaskFault(message) from error

    def _on_device(self, arguments: list[Any]) -> list[Any]:
        return [a.to(self.device) if isinstance(a, torch.Tensor) else a for a in arguments]

    def pickled_arguments(self) -> str:
        """`get_init_inputs()` for the candidate's constructor (trusted data, one way)."""
        try:
            pickled = base64.b64encode(pickle.dumps(self.arguments)).decode()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TaskFault(f"get_init_inputs() can't be handed to a submission: {error}") from error
        if len(pickled) > ARGUMENTS_CAP:
            raise TaskFault(
                f"get_init_inputs() gives {len(pickled)} bytes, at most {ARGUMENTS_CAP} can be handed over"
            )
        return pickled

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name."""
        return {name: value.detach() for name, value in self.model.state_dict().items()}

    @property
    def families(self) -> list[Family]:
        """Of the task's own checks."""
        return [Family(name, text) for name, text in self.extras.inputs.items()]

    def inputs(self, seed: int, family: Family | None = None) -> list[Any]:
        """Fresh inputs on the device, from the task's own generator, or of a family."""
        return list(cast(self._made(seed, family), self.precision))

    def _made(self, seed: int, family: Family | None) -> list[Any]:
        own: Any = getattr(self._module, "get_extra_inputs", None)
        seed_all(seed)
        with task_code("its inputs"), torch.no_grad(), self.device:
            if family is not None and family.change is None and own is not None:
                return [_move(value, self.device) for value in own(family.name)]
            values = [_move(value, self.device) for value in self._module.get_inputs()]
            if family is not None and family.change is not None:
                family.change(flatten(values)[1])
                return values
            return values if family is None else [_change(value, family.name) for value in values]

    def broken_invariant(self, inputs: list[Any], outputs: list[torch.Tensor]) -> str | None:
        """What the outputs violate of the task's invariant; outputs are flat."""
        own: Any = getattr(self._module, "check_outputs", None)
        invariant = own or INVARIANTS.get(self._task_id)
        if not self.extras.invariant or invariant is None:
            return None
        with task_code("its check of outputs"), torch.no_grad():
            problem: str | None = invariant(inputs, outputs)
        return problem

    def __call__(self, inputs: list[Any]) -> Any:
        with task_code("forward"), torch.no_grad():
            return self.model(*inputs)

    def in_32_bits(self, inputs: list[Any]) -> list[torch.Tensor] | None:
        """Flat outputs of a copy that computes in 32 bits from the same numbers; None where that can't be had."""
        try:
            if self._wide is None:
                with task_code("copying its model"):
                    self._wide = widen_model(copy.deepcopy(self.model))
            with task_code("forward"), torch.no_grad():
                outputs = flatten(self._wide(*mapped(inputs, torch.Tensor.float)))[1]
            return [output.contiguous() for output in outputs]
        except (TaskFault, torch.OutOfMemoryError):
            return None

    def footprint(self) -> int:
        """Bytes of one set of inputs, measured without making them where the generator allows it."""
        try:
            with torch.no_grad(), torch.device("meta"):
                _, tensors = flatten(cast(list(self._module.get_inputs()), self.precision))
        except Exception:  # a generator that needs real data can't run on the meta device
            return 0
        return place(tensors)[1]


@contextmanager
def task_code(what: str) -> Iterator[None]:
    """Whatever a task's own code raises is a fault of the task; a lack of memory is told apart by the caller."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (Exception, SystemExit) as error:  # a task file may raise anything
        raise TaskFault(f"the reference fails in {what}: {type(error).__name__}: {error}"[:1000]) from error


def seed_all(seed: int) -> None:
    """The generators that a task can draw from; `torch.manual_seed` also leaves a note for each kind of device."""
    for generator in (torch.default_generator, *torch.cuda.default_generators):
        generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))


def seed_process(seed: int) -> None:
    """The same where CUDA may not have been started yet: it is seeded when it is."""
    torch.manual_seed(seed)
    seed_all(seed)


def describe(skeleton: Any, slots: list[Slot]) -> dict[str, Any]:
    """Nested arguments as the candidate receives them: structure, and where each tensor lies."""
    return {"skeleton": skeleton, "slots": [slot.to_json() for slot in slots]}


def _change(value: Any, family: str) -> Any:
    if isinstance(value, torch.Tensor):
        return transform(family, value)
    if isinstance(value, (list, tuple)):
        return type(value)(_change(item, family) for item in value)
    return value


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).resolve_conj().resolve_neg()  # plain bytes, to be copied as such
    if isinstance(value, (list, tuple)):
        return type(value)(_move(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _move(item, device) for key, item in value.items()}
    return value


def execute(task_id: str, source: str) -> types.ModuleType:
    """A task file as a module; raises `TaskFault`."""
    name = f"<task {task_id}>"
    module = types.ModuleType("task")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except Exception as error:  # a task file may raise anything
        raise TaskFault(f"task {task_id} does not import: {type(error).__name__}: {error}") from error
    return module
