"""The memory a judge shares with one candidate: the reference's state, and sets of inputs and output slots.

Layouts are the judge's plan, made from its own tensors. Invariants: the judge's own inputs and the expected
outputs are never in here, only copies of the inputs; output slots are poisoned before a candidate may write.
"""

from __future__ import annotations

from typing import Any

import torch

from . import hardware, memory
from .compare import same_bytes
from .digest import Digest
from .families import Family
from .layout import Slot, flatten, load, place, raw, store
from .reference import Reference, TaskFault, describe

SETS = 16
DEVICE_SHARE = 0.03
HOST_BUDGET = 64 << 20
PAIR_SHARE = 0.2


class InputSet:
    """One set: where its inputs and outputs lie. `private` holds the judge's own inputs, of `family`."""

    def __init__(
        self, start: int, skeleton: Any, inputs: list[torch.Tensor], out: Any, outputs: list[torch.Tensor]
    ):
        self.input_slots, middle = place(inputs, start)
        self.output_slots, self.end = place(outputs, middle, dense=True)
        self.inputs = describe(skeleton, self.input_slots)
        self.outputs = describe(out, self.output_slots)
        self.family: Family | None = None
        self.private: list[Any] = []
        self.expected: list[torch.Tensor] = []


class Mailbox:
    """Sized from one sample of inputs and outputs; all sets have that sample's layout."""

    def __init__(self, reference: Reference, inputs: list[Any], outputs: Any) -> None:
        self._reference = reference
        self._skeleton, sample = flatten(inputs)
        out_skeleton, expected = flatten(outputs)
        if not expected:
            raise TaskFault("the reference returns no tensor")
        state = reference.state()
        slots, start = place(list(state.values()))
        self.state = dict(zip(state, slots, strict=True))
        probe = InputSet(start, self._skeleton, sample, out_skeleton, expected)
        self.sets = [probe]
        for _ in range(_set_count(probe.end - start, reference.device) - 1):
            self.sets.append(InputSet(self.sets[-1].end, self._skeleton, sample, out_skeleton, expected))
        self.region = memory.create(self.sets[-1].end, reference.device)
        self._digest = Digest()

    def share_state(self) -> None:
        """The reference's weights, for a process to take over; one that did so before may have changed them."""
        store(list(self._reference.state().values()), list(self.state.values()), self.region)

    def fill(self, entry: InputSet, seed: int, family: Family | None = None) -> None:
        """Draw fresh inputs for a set, share a copy of them, and poison its output slots."""
        self.draw(entry, seed, family)
        self.share(entry)
        self.poison(entry)

    def draw(self, entry: InputSet, seed: int, family: Family | None = None) -> None:
        """Fresh inputs for a set, as yet the judge's own."""
        entry.family = family
        entry.private = self._reference.inputs(seed, family)
        skeleton, tensors = flatten(entry.private)
        if skeleton != self._skeleton or place(tensors, 0)[0] != _rebased(entry.input_slots):
            raise TaskFault("get_inputs() gives other shapes from one call to the next")

    def share(self, entry: InputSet) -> None:
        store(flatten(entry.private)[1], entry.input_slots, self.region)

    def poison(self, entry: InputSet) -> None:
        for slot in entry.output_slots:
            dtype = slot.torch_dtype
            value: Any = float("nan") if dtype.is_floating_point or dtype.is_complex else 113
            self.region.typed(slot.offset, slot.span, dtype).fill_(value)

    def answers(self, entry: InputSet) -> list[torch.Tensor]:
        """The output slots' present contents, as tensors over the shared memory."""
        return load(entry.output_slots, self.region)

    def digest(self, entry: InputSet) -> torch.Tensor:
        """A number that changes with the slots' contents; on the device, not waited for."""
        slots = [(slot.offset, slot.span * slot.torch_dtype.itemsize) for slot in entry.output_slots]
        return torch.stack(
            [self._digest.of(self.region.data[start : start + size]) for start, size in slots]
        ).sum()

    def mutated(self, entry: InputSet) -> bool:
        """Do the shared inputs no longer hold what the judge put there?"""
        _, tensors = flatten(entry.private)
        return not all(
            same_bytes(self.region.typed(slot.offset, slot.span, tensor.dtype), raw(tensor, slot))
            for tensor, slot in zip(tensors, entry.input_slots, strict=True)
            if slot.span
        )

    def close(self) -> None:
        for entry in self.sets:
            entry.private, entry.expected = [], []
        self.region.close()


def _set_count(size: int, device: torch.device) -> int:
    """Two sets at least, so that contents alternate, where they take no more than a share of the memory."""
    memory = hardware.memory_bytes(device)
    budget = DEVICE_SHARE * memory if device.type == "cuda" else HOST_BUDGET
    count = min(SETS, int(budget // max(size, 1)))
    return max(count, 2 if 2 * size <= PAIR_SHARE * memory else 1)


def _rebased(slots: list[Slot]) -> list[Slot]:
    start = slots[0].offset if slots else 0
    return [Slot(slot.shape, slot.stride, slot.dtype, slot.offset - start) for slot in slots]
