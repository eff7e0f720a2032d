"""Submissions that break things, one fault a file, and what each of them must come to; all are data.

A file holds what is done on import and, in `construct` and `trial`, on construction and in each call; `FRAME`
makes a submission of it, which is right but for the fault. Its docstring says what it does, then `kind` (several
where the device decides) and `stage` of the outcome, a text that it `says`, and what is not usual: `device`,
`language`, `needs` (a program). Below `killed/`, `kill` names processes of ours: each is a fault of its own, where
that process is killed once the submission says that it `hold`s.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(4, 64)]


def get_init_inputs():
    return []
"""
FRAME = '''
TRIALS = 8  # there are never more calls before the timing


def device():
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def note():
    """Tell of a process."""
    import os

    with open("noted", "a") as file:
        file.write(f"{os.getpid()}\\n")


def hold():
    """Say that the moment has come, and wait until it is over."""
    import os
    import time

    open("held", "w").close()
    while not os.path.exists("over"):
        time.sleep(0.01)


#{fault}


import torch
import triton
import triton.language as tl


@triton.jit
def affine(x, y, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count) * 2.0 + 1.0, mask=at < count)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        globals().get("construct", lambda: None)()

    def forward(self, x):
        globals().get("trial", lambda: None)()
        y = torch.empty_like(x)
        affine[(1,)](x, y, x.numel(), BLOCK=256)
        return y
'''
RIGHT = FRAME.replace("#{fault}", "")


@dataclass(frozen=True)
class Fault:
    """`victim`: the process of ours that is killed, or nothing. An empty `stage` or `says` is any."""

    name: str
    what: str
    kinds: tuple[str, ...]
    stage: str
    says: str
    device: str
    language: str
    needs: str
    victim: str
    code: str

    def __str__(self) -> str:
        return f"{self.name}-{self.victim}" if self.victim else self.name


def faults(device: str = "cpu") -> list[Fault]:
    """Those of a device, `cpu` or `cuda`, by name."""
    every = [fault for path in sorted(FOLDER.glob("*/*.py")) for fault in _read(path)]
    return [fault for fault in every if fault.device in ("", device)]


def _read(path: Path) -> Iterator[Fault]:
    text = path.read_text(encoding="utf-8")
    what, *rest = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    facts = dict(line.split(": ", 1) for line in rest if ": " in line)
    for victim in facts.get("kill", "").split(", "):
        yield Fault(
            name=f"{path.parent.name}/{path.stem}",
            what=what,
            kinds=tuple(facts["kind"].split(", ")),
            stage=facts.get("stage", ""),
            says=facts.get("says", ""),
            device=facts.get("device", ""),
            language=facts.get("language", "triton"),
            needs=facts.get("needs", ""),
            victim=victim,
            code=FRAME.replace("#{fault}", text),
        )
