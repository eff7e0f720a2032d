"""Honest kernels of our own for KernelBench tasks, one submission a file, and how to find them.

`triton/`, `cuda/` and `helion/` hold whole submissions as an agent would send them; the name of a file is the
task's id with `_` for `/`. The tasks themselves are not here. The files are data: nothing imports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Language = Literal["triton", "cuda", "helion"]
# What needs no extra.
USUAL: tuple[Language, ...] = ("triton", "cuda")

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Kernel:
    """One submission. `task_id` is KernelBench's, such as `level1/19_ReLU`."""

    task_id: str
    language: Language
    path: Path

    @property
    def code(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def __str__(self) -> str:
        return f"{self.language}-{self.path.stem}"


def kernels(language: Language | None = None) -> list[Kernel]:
    """Those in one language, or all in the usual ones, ordered by language, level and number."""
    languages = USUAL if language is None else (language,)
    return [
        Kernel(task_id=path.stem.replace("_", "/", 1), language=name, path=path)
        for name in languages
        for path in sorted((FOLDER / name).glob("*.py"), key=_order)
    ]


def _order(path: Path) -> tuple[str, int]:
    level, number, _ = path.stem.split("_", 2)
    return level, int(number)
