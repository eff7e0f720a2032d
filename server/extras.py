"""Checks of a task beyond `get_inputs()` and the configured tolerance: what they are, by task id or declaration.

Some tasks accept wrong answers on their own inputs: a copy passes for an activation of non-negative numbers, zeros
pass for a softmax over a long row. For those, further input families, a tighter tolerance and invariants are
fixed here by task id. A task file may declare its own as a literal, `EXTRA_CHECKS` (see docs/tasks.md), which
then counts instead. Text only: nothing is imported or run here, so that server and judge read the same.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kernel_env.syntax import parse

from .strict import FAMILIES

NAME = "EXTRA_CHECKS"
CACHED = 512


class ExtrasError(ValueError):
    """A task's `EXTRA_CHECKS` is not of the documented form."""


@dataclass(frozen=True)
class Extras:
    """`inputs` maps each family's name to its description, which the problem text discloses.

    The absolute tolerance is the configured one (or `atol`), and never more than `relative_atol` times the
    largest expected magnitude. `finite` refuses NaN and infinities. `invariant` describes what outputs must
    satisfy. `reads` and `writes` are shares of each input's and of all outputs' bytes that any correct program
    must move, see `floors`. Under strict checks, `families` names those that the task may have (see `strict`),
    all by default, and `undecided` says why nothing tells its right outputs from wrong ones.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    atol: float | None = None
    rtol: float | None = None
    relative_atol: float | None = None
    finite: bool = False
    invariant: str = ""
    reads: tuple[float, ...] | None = None
    writes: float | None = None
    families: frozenset[str] | None = None
    undecided: str = ""


_ACTIVATION = Extras(
    inputs={"signed": "signed numbers, uniform in [-32, 32]", "zeros": "zeros"},
)
_KNOWN = {
    "level1/23_Softmax": Extras(
        inputs={"constant": "rows of one constant", "peaked": "rows with a peak whose place and height vary"},
        relative_atol=1e-5,
        finite=True,
        invariant="every row is non-negative and sums to one",
    ),
    "level1/37_FrobeniusNorm_": Extras(
        inputs={
            "signed": "signed numbers, uniform in [-32, 32]",
            "scaled": "normal numbers of another scale",
            "sparse": "numbers of which 99 % are zero",
        },
        relative_atol=1e-5,
        finite=True,
        invariant="the whole output has an L2 norm of one",
    ),
    "level1/19_ReLU": _ACTIVATION,
    "level1/20_LeakyReLU": _ACTIVATION,
    "level1/29_Softplus": _ACTIVATION,
    "level1/31_ELU": _ACTIVATION,
    "level1/88_MinGPTNewGelu": _ACTIVATION,
}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "inputs": dict,
    "atol": (int, float),
    "rtol": (int, float),
    "relative_atol": (int, float),
    "finite": bool,
    "invariant": str,
    "reads": (list, tuple),
    "writes": (int, float),
    "families": (list, tuple),
    "undecided": str,
}


@lru_cache(CACHED)
def extras_of(task_id: str, source: str) -> Extras:
    """A task's own declaration, else what its id is known for, else nothing. Raises `ExtrasError`."""
    return declared(parse(source)) or built_in(task_id)


def built_in(task_id: str) -> Extras:
    """What an id is known for."""
    return _KNOWN.get(task_id, Extras())


def declared(tree: ast.Module) -> Extras | None:
    """The literal `EXTRA_CHECKS` of a task file, or None where it has none. Raises `ExtrasError`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == NAME for t in node.targets):
            return _read(node.value, tree)
    return None


def _read(node: ast.expr, tree: ast.Module) -> Extras:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise ExtrasError(f"{NAME} must be a literal dict") from None
    strange = sorted(str(key) for key in value if key not in _KINDS) if isinstance(value, dict) else []
    if not isinstance(value, dict) or strange:
        told = f"has {', '.join(strange)[:60]}, and must" if strange else "must"
        raise ExtrasError(f"{NAME} {told} be a dict with keys among: {', '.join(_KINDS)}")
    for key, item in value.items():
        if not isinstance(item, _KINDS[key]) or (isinstance(item, (int, float)) and item < 0):
            raise ExtrasError(f"{NAME}[{key!r}] has a value that is not allowed: {str(item)[:60]}")
    _require_shares(value)
    _require_families(value)
    functions = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
    _require(value, "inputs", "get_extra_inputs", functions)
    _require(value, "invariant", "check_outputs", functions)
    return Extras(**value)


def _require_shares(value: dict[str, Any]) -> None:
    """Makes `reads` a tuple."""
    if "reads" in value:
        value["reads"] = tuple(value["reads"])
    for share in (*value.get("reads", ()), value.get("writes", 0.0)):
        if not isinstance(share, (int, float)) or not 0.0 <= share <= 1.0:
            raise ExtrasError(f"{NAME}: reads and writes are shares from 0 to 1, not {str(share)[:60]}")


def _require_families(value: dict[str, Any]) -> None:
    """Makes `families` a set."""
    if "families" in value:
        unknown = [name for name in value["families"] if name not in FAMILIES]
        if unknown:
            raise ExtrasError(
                f"{NAME}['families'] names {str(unknown[0])[:60]}, not one of: {', '.join(FAMILIES)}"
            )
        value["families"] = frozenset(value["families"])


def _require(value: dict[str, Any], key: str, function: str, functions: set[str]) -> None:
    if value.get(key) and function not in functions:
        raise ExtrasError(f"{NAME}[{key!r}] needs a function {function} in the task file")


def disclosure(extras: Extras, atol: float, rtol: float) -> str:
    """What a model is told of the extra checks, in sentences; empty where there are none."""
    sentences = []
    if extras.inputs:
        families = "; ".join(extras.inputs.values())
        sentences.append(f"One more trial each, at the same shapes: {families}. Timing keeps to `get_inputs()`.")
    if extras.atol is not None or extras.rtol is not None:
        own = f"{pick(extras.atol, atol):g} + {pick(extras.rtol, rtol):g} * |expected|"
        sentences.append(f"The tolerance of this task is {own}.")
    if extras.relative_atol is not None:
        sentences.append(
            f"The absolute part of the tolerance is at most {extras.relative_atol:g} of the largest expected"
            " magnitude."
        )
    if extras.finite:
        sentences.append("NaN and infinities are wrong.")
    if extras.invariant:
        sentences.append(f"Besides, {extras.invariant}.")
    return " ".join(sentences)


def pick(own: float | None, configured: float) -> float:
    return configured if own is None else own
