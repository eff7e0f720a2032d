"""Submissions as training sees them, made from honest kernels: refused, not compiling, wrong, right.

Shares are those of a policy on its way: 30 % break a rule of the static checks, 15 % do not compile, 25 % give
wrong numbers, 30 % are right; four in five are Triton. Each is a text of its own, so that nothing that is kept
for an equal text is of use.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SHARES = {"refused": 30, "not compiling": 15, "wrong": 25, "right": 30}
TRITON_SHARE = 0.8

_REFUSED = """
import torch


class ModelNew(Honest):
    def forward(self, *inputs):
        return torch.matmul(inputs[0], inputs[-1])
"""
_WRONG = """

class ModelNew(Honest):
    def forward(self, *inputs):
        out = super().forward(*inputs)
        out.view(-1)[:1].fill_(12345.0)
        return out
"""


@dataclass(frozen=True)
class Submission:
    """`kind` says what is wrong with it, see `SHARES`."""

    task_id: str
    language: str
    kind: str
    code: str

    def __str__(self) -> str:
        return f"{self.language} {self.task_id}"


def right(kernels: Sequence[Submission], rng: random.Random) -> Iterator[Submission]:
    """Honest kernels without end, each time all of them in another order."""
    while True:
        yield from (spoiled(kernel, "right", rng) for kernel in rng.sample(kernels, len(kernels)))


def mixed(kernels: Sequence[Submission], rng: random.Random) -> Iterator[Submission]:
    """Submissions of all kinds without end."""
    by_language = [kernels_in(kernels, "triton"), [kernel for kernel in kernels if kernel.language != "triton"]]
    while True:
        first, second = by_language if rng.random() < TRITON_SHARE else by_language[::-1]
        (kind,) = rng.choices(list(SHARES), list(SHARES.values()))
        yield spoiled(rng.choice(first or second), kind, rng)


def kernels_in(kernels: Sequence[Submission], language: str) -> list[Submission]:
    return [kernel for kernel in kernels if kernel.language == language]


def spoiled(kernel: Submission, kind: str, rng: random.Random) -> Submission:
    """An honest kernel made into one of `kind`, under a comment that makes it a new text."""
    code = f"# {rng.getrandbits(64):016x}\n{_SPOILED[kind](kernel.code)}"
    return Submission(kernel.task_id, kernel.language, kind, code)


def _not_compiling(code: str) -> str:
    """A type that does not exist, or a sum that has none, in the first kernel."""
    for right, wrong in (("__global__ void", "__global__ flot"), ("torch::Tensor", "torch::Tenor")):
        if right in code:
            return code.replace(right, wrong, 1)
    return re.sub(r"tl\.load\(", "tl.load(0.5 + ", code, count=1)


def _under(code: str, model: str) -> str:
    """`model` is the submission's, and the honest one its base."""
    return re.sub(r"\bModelNew\b", "Honest", code) + model


_SPOILED: dict[str, Callable[[str], str]] = {
    "refused": lambda code: _under(code, _REFUSED),
    "not compiling": _not_compiling,
    "wrong": lambda code: _under(code, _WRONG),
    "right": str,
}
