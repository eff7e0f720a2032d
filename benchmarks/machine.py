"""What a benchmark ran on: the machine, the versions, and how busy it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path


def machine(packages: Sequence[str]) -> dict[str, str]:
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return {
        "machine": f"{platform.system()} {platform.release()}, {cpu}, {len(os.sched_getaffinity(0))} cores",
        "python": f"{platform.python_version()}; {versions}",
        "load": load(),
    }


def show(facts: dict[str, str]) -> None:
    print(*(f"{name:10} {value}" for name, value in facts.items()), sep="\n", flush=True)


def load() -> str:
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())
