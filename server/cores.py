"""The host's cores: each device's share, near it where that is known, and what of it compilers may use.

Shares differ, where there are cores enough, and are set as affinity of a worker's processes. Compilers stay off
two cores of a share, so that judge and candidate find those free. What a container allows is all there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

import pynvml

KEPT_FREE = 2
LEAST = 2 * KEPT_FREE


def allowed() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def near(index: str) -> frozenset[int]:
    """The cores on the side of the host where a GPU is, by index (in the order of the bus) or UUID; or none."""
    try:
        pynvml.nvmlInit()
        if index.isdigit():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(index))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(index)
        words = pynvml.nvmlDeviceGetCpuAffinity(handle, (os.cpu_count() or 1) // 64 + 1)
    except pynvml.NVMLError:
        return frozenset()
    return frozenset(64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1)


def shares(
    indices: Sequence[str],
    cores: Sequence[int],
    near: Callable[[str], Collection[int]] = near,
) -> list[tuple[int, ...]]:
    """`cores` dealt out to the devices in turn, near ones first; with fewer cores than devices, all to each."""
    if not indices or len(cores) < len(indices):
        return [tuple(cores)] * len(indices)
    left, dealt = list(cores), [list[int]() for _ in indices]
    wanted = [near(index) for index in indices] if len(indices) > 1 else [()]
    for turn in range(len(indices) * (len(cores) // len(indices))):
        device = turn % len(indices)
        core = next((core for core in left if core in wanted[device]), left[0])
        left.remove(core)
        dealt[device].append(core)
    return [tuple(sorted(share)) for share in dealt]


def for_compilers(share: Sequence[int]) -> tuple[int, ...]:
    """What is left of a share beside the cores that are kept free; all of a small one."""
    return tuple(share[KEPT_FREE:]) if len(share) >= LEAST else tuple(share)


def builds(count: int) -> int:
    """How many builds may run at once on so many cores."""
    return max(1, count - KEPT_FREE)
