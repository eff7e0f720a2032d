"""How a host's cores are dealt out to its devices, and that their processes stay on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernel_env.server import local
from kernel_env.server.config import Settings
from kernel_env.server.cores import builds, for_compilers, near, shares

from .pools import started
from .processes import find


def test_each_device_gets_as_many_near_ones_first() -> None:
    sides = {"0": range(4, 8), "1": range(4)}
    assert shares(["0", "1"], range(8), sides.__getitem__) == [(4, 5, 6, 7), (0, 1, 2, 3)]
    assert shares(["0", "1"], range(6), sides.__getitem__) == [(2, 4, 5), (0, 1, 3)]


def test_one_device_gets_all_and_too_few_are_shared() -> None:
    assert shares(["0"], [3, 5, 9]) == [(3, 5, 9)]
    assert shares(["0", "1", "2"], [3, 5], lambda index: ()) == [(3, 5)] * 3
    assert shares([], [3, 5]) == []


def test_an_unknown_gpu_is_near_to_nothing() -> None:
    assert near("GPU-00000000-0000-0000-0000-000000000000") == frozenset()


def test_compilers_leave_two_cores_of_a_share_that_has_four() -> None:
    assert for_compilers([4, 5, 6, 7]) == (6, 7)
    assert for_compilers([4, 5, 6]) == (4, 5, 6)
    assert (builds(16), builds(2)) == (14, 1)


async def test_a_worker_s_processes_stay_on_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    core = max(os.sched_getaffinity(0))
    monkeypatch.setattr(local.cores, "allowed", lambda: (core,))
    async with started(Settings(evaluator="cpu")):
        pids = [*find("server.worker"), *find("server.judge"), *find("server.zygote", leaf=False)]
        assert len(pids) == 3
        for pid in pids:
            assert f"Cpus_allowed_list:\t{core}\n" in Path(f"/proc/{pid}/status").read_text()
