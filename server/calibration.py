"""What strict checks expect of a task, from runs of its reference: input families, and how exact is right.

For each family: is the reference finite there, how far is it from the same in 64 bits, how far with products in
TF32, how much do its outputs vary with the inputs? From these follows the allowance of each output. A family on
which a right output can't be told from a replayed one by a wide margin is left out. A task's own inputs always
stay.

All errors are shares of an output's root mean square, so what was found for one draw holds for the next and is
kept for a task's next submissions. The model is a copy: the judge's reference stays as it was. Bounds: 64 bits
only where they fit in the memory that is free; where they took longer than `LONG_S`, or don't fit or don't run, a
family has the error of the task's own inputs, and these, if need be, `UNKNOWN`.
"""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from . import domain, strict, varied
from .agreement import Deviation
from .domain import Domain
from .families import Change, Family
from .layout import flatten
from .precision import Found, Runs
from .reference import Reference, TaskFault

GAINS = (1.0, 1.0, strict.GAIN, strict.GAIN)
_LEAST = 2e-7
_KEPT = 512


@dataclass(frozen=True)
class Allowance:
    """How far an output may be from the expected one, in shares of its size; `varies`: how far inputs move it."""

    scale: float
    residual: float
    varies: float

    @property
    def telling(self) -> bool:
        return math.hypot(self.scale, self.residual) < strict.TELLING * self.varies


Allowances = tuple[Allowance | None, ...]
"""One for each output; None for integers, which are compared exactly."""


@dataclass(frozen=True)
class Calibration:
    """`families` are the further ones that the task keeps, `own` holds for what `get_inputs()` gives.

    `products`: some of the allowance is TF32's. `gain` is that of the weights. `note` says why no inputs tell
    right outputs from wrong ones.
    """

    own: Allowances
    families: tuple[Family, ...]
    allowances: dict[str, Allowances]
    products: bool
    gain: float
    note: str

    def of(self, family: Family | None) -> Allowances:
        """Empty for a family that is the task's own check and not one of these."""
        if family is None:
            return self.own
        return self.allowances[family.name] if family.change else ()


Draw = Callable[[float], Reference]
"""A reference of one task, with weights of its own and of a gain."""


class Calibrations:
    """Of one device, by task; the oldest make room for new ones."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Calibration] = OrderedDict()

    def of(self, task_id: str, source: str, draw: Draw) -> tuple[Reference, Calibration]:
        """A reference with weights of its own from `draw`, and what is known of its task.

        With some weights a reference gives the same for all inputs, such as all of them clamped: then others are
        drawn, as often as `GAINS` says. Raises `TaskFault` where the reference does not run on its own inputs.
        """
        key = (task_id, source)
        known = self._known.get(key)
        if known is None:
            reference, known = _first(source, draw)
            self._known[key] = known
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return reference, known
        self._known.move_to_end(key)
        gain = 1.0 if known.note else known.gain
        reference = draw(gain)
        for _ in range(len(GAINS) - 1):
            if known.note or _tells(reference, known):
                break
            reference = draw(gain)
        return reference, known


def _first(source: str, draw: Draw) -> tuple[Reference, Calibration]:
    """Weights are drawn as they are made first, then larger."""
    for gain in GAINS:
        reference = draw(gain)
        calibration = calibrate(reference, source)
        if not calibration.note:
            return reference, calibration
    return draw(1.0), calibration


def _tells(reference: Reference, known: Calibration) -> bool:
    """Do the outputs vary with the inputs as they should, with the weights that it has?"""
    kinds: list[tuple[Family | None, Allowances]] = [(None, known.own)]
    kinds += [(family, known.of(family)) for family in known.families]
    for family, allowances in kinds:
        if any(each is not None and each.telling for each in allowances):
            moved = Runs(reference).varies(family)
            return any(
                each is not None and each.telling and replace(each, varies=share).telling
                for each, share in zip(allowances, moved, strict=True)
            )
    return True


def calibrate(reference: Reference, source: str) -> Calibration:
    """Run the reference on its own inputs and on each family. Raises `TaskFault`."""
    domains = list(map(domain.joined, _domains(reference), _domains(reference)))
    runs = Runs(reference)
    own = runs.on(None)
    found: dict[str, Found] = {}
    families = []
    for family in _candidates(reference, domains, domain.bounded(source), integers=None in own.errors):
        if family.name == "near_one" and not _vanishes(own, found.get("normal")):
            continue
        try:
            here = runs.on(family)
        except (TaskFault, torch.OutOfMemoryError):  # outside the task's domain, or of this device's memory
            continue
        if here.finite and any(each is None or each.telling for each in _allowances(here, runs)):
            families.append(family)
            found[family.name] = here
    allowances = {name: _allowances(here, runs) for name, here in found.items()}
    ours = _allowances(own, runs)
    note = _note(own, [ours, *allowances.values()])
    return Calibration(ours, tuple(families), allowances, runs.products, reference.gain, note)


def measured(reference: Reference, family: Family | None) -> Allowances:
    """The allowances under one family, with the weights that the reference has now. Raises `TaskFault`."""
    runs = Runs(reference)
    own = runs.on(None)
    return _allowances(own if family is None else runs.on(family), runs)


def larger(one: Allowance, other: Allowance) -> Allowance:
    return Allowance(max(one.scale, other.scale), max(one.residual, other.residual), max(one.varies, other.varies))


def _domains(reference: Reference) -> list[Domain]:
    return [domain.domain_of(tensor) for tensor in flatten(reference.inputs(secrets.randbits(62)))[1]]


def _candidates(reference: Reference, domains: Sequence[Domain], bounded: bool, integers: bool) -> list[Family]:
    """The families that may be tried; among equal numbers a right index (`integers`) is not the only one."""
    wanted = reference.extras.families
    unfit = varied.FLAT | {"bounds"} if integers else frozenset()
    return [
        Family(name, text, _change(name, domains))
        for name, text in strict.FAMILIES.items()
        if (wanted is None or name in wanted) and name not in unfit and varied.changes(name, domains, bounded)
    ]


def _change(name: str, domains: Sequence[Domain]) -> Change:
    return lambda tensors: varied.vary(name, tensors, domains)


def _vanishes(own: Found, normal: Found | None) -> bool:
    return own.vanishing and (normal is None or normal.vanishing)


def _allowances(found: Found, runs: Runs) -> Allowances:
    return tuple(
        None if error is None else _allowance(error, varies, runs.narrow)
        for error, varies in zip(found.errors, found.varies, strict=True)
    )


def _allowance(error: Deviation, varies: float, narrow: float) -> Allowance:
    order = max(_LEAST, min(strict.ORDER, strict.VARIATION * varies))
    residual = strict.RESIDUAL * error.residual + max(order, strict.TIES * narrow)
    scale = min(strict.SCALE * error.scale, strict.LARGEST_SCALE) + order
    return Allowance(scale, residual, varies)


def _note(own: Found, all_allowances: Sequence[Allowances]) -> str:
    """Why no inputs tell a right output from a replayed one; empty if some do."""
    if any(each.telling for allowances in all_allowances for each in allowances if each is not None):
        return ""
    if any(error is None and varies for error, varies in zip(own.errors, own.varies, strict=True)):
        return ""
    if own.random:
        return "its result is random: it differs from call to call as much as from input to input"
    return "its result is the same for all inputs, or nearly so: within rounding"
