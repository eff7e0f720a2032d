"""`baseline_time_*.json` in KernelBench's layout: level to file name to the statistics of a reference's time.

`{"level1": {"19_ReLU.py": {"mean": ms, "std", "min", "max", "num_trials", "hardware", "device"}}}`. Files with and
without `.py` in the names are read. In files of ours `mean` is the median of the blocks' medians, as `runtime` in
the results is, so that the two compare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .attempt import finite
from .folder import write_whole
from .problems import Place, place

PREFIX = "baseline_time_"
FP32 = "fp32"


class BaselineError(RuntimeError):
    """A baseline file is not what it should be; the text names it and what is wrong."""


@dataclass(frozen=True)
class Baseline:
    """`means`: ms by level and number; `hardware`: the devices that it was measured on, `precisions` alike."""

    name: str
    means: Mapping[Place, float]
    hardware: tuple[str, ...]
    precisions: tuple[str, ...] = (FP32,)

    def tasks(self, level: int) -> int:
        return sum(where[0] == level for where in self.means)


def read(path: Path) -> list[Baseline]:
    """The baseline in a file, or those in a folder. Raises `BaselineError`."""
    if path.is_dir():
        files = sorted(path.glob(f"{PREFIX}*.json"))
        if not files:
            raise BaselineError(f"{path} holds no {PREFIX}*.json")
        return [_baseline(file) for file in files]
    return [_baseline(path)]


def content(file: Path) -> dict[str, dict[str, Any]]:
    """A file as it is. Raises `BaselineError` where it is not in the layout."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BaselineError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(level, dict) for level in found.values()):
        raise BaselineError(f"{file} is no map from levels to maps from file names to times")
    return found


def write(file: Path, levels: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises OSError."""
    write_whole(file, json.dumps(levels, indent=4))


def file_name(kind: str, mode: str = "") -> str:
    """`eager`, or a `torch.compile` backend with its mode."""
    return f"{PREFIX}torch.json" if kind == "eager" else f"{PREFIX}torch_compile_{kind}{mode and '_' + mode}.json"


def precision_of(stats: Mapping[str, Any]) -> str:
    """What a time was measured in; files of others do not say."""
    own = stats.get("kernel_env")
    told = own.get("precision") if isinstance(own, dict) else None
    return told if isinstance(told, str) else FP32


def _baseline(file: Path) -> Baseline:
    means: dict[Place, float] = {}
    hardware: set[str] = set()
    precisions: set[str] = set()
    for level, tasks in content(file).items():
        for name, stats in tasks.items():
            where = place(f"{level}/{name.removesuffix('.py')}")
            mean = finite(stats.get("mean")) if isinstance(stats, dict) else None
            if where is None or mean is None or mean <= 0.0:
                raise BaselineError(f"{file}: {level}/{name} is no problem with a mean above 0 ms")
            if where in means:
                raise BaselineError(f"{file} has two times of problem {where[1]} of {level}")
            means[where] = mean
            hardware.add(str(stats.get("hardware", "")))
            precisions.add(precision_of(stats))
    name = file.stem.removeprefix(PREFIX)
    return Baseline(name, means, tuple(sorted(hardware - {""})), tuple(sorted(precisions)))
