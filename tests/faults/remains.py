"""What is there of a pool's: processes, descriptors, folders of submissions, shared memory, device memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..processes import descendants, descriptors, find, folder_of

ROLES = ("worker", "judge", "zygote")
OF_A_SUBMISSION = ("candidate-", "source-", "twin-", "sketch-")
DEVICE_SLACK_MIB = 64
DESCRIPTOR_SLACK = 2
"""What a process opens once, the first time that it needs it."""


@dataclass(frozen=True)
class Remains:
    """`processes` by role, `descriptors` by role with this process's own, `shared` by name, `device` in MiB."""

    processes: dict[str, int]
    descriptors: dict[str, int]
    folders: int
    shared: frozenset[str]
    device: int

    @classmethod
    def look(cls) -> Remains:
        roles = {role: find(f"server.{role}", leaf=False) for role in ROLES}
        known = {pid for pids in roles.values() for pid in pids}
        others = {pid for worker in roles["worker"] for pid in descendants(worker)} - known
        return cls(
            processes={role: len(pids) for role, pids in roles.items()} | {"others": len(others)},
            descriptors={
                "pool": descriptors(os.getpid()),
                **{role: sum(map(descriptors, pids)) for role, pids in roles.items()},
            },
            folders=sum(map(_folders, roles["worker"])),
            shared=frozenset([*_named(), *_segments()]),
            device=_device_mib(),
        )

    def beyond(self, before: Remains) -> list[str]:
        """What there is more of than before."""
        left = [
            f"{count - before.processes[role]:+} {role}"
            for role, count in self.processes.items()
            if count != before.processes[role]
        ]
        left += [
            f"{count - before.descriptors[role]:+} descriptors of the {role}"
            for role, count in self.descriptors.items()
            if count > before.descriptors[role] + DESCRIPTOR_SLACK
        ]
        left += [f"{self.folders} folders"] if self.folders else []
        left += [f"shared memory {name}" for name in sorted(self.shared - before.shared)]
        if self.device > before.device + DEVICE_SLACK_MIB:
            left.append(f"{self.device - before.device} MiB of the device")
        return left


def _folders(worker: int) -> int:
    return len([entry for entry in os.listdir(folder_of(worker)) if entry.startswith(OF_A_SUBMISSION)])


def _named() -> Iterator[str]:
    """Shared memory with a name that a submission has given it."""
    folder = Path("/dev/shm")
    return (entry.name for entry in folder.glob("left-by-*")) if folder.is_dir() else iter(())


def _segments() -> Iterator[str]:
    """System V's."""
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        yield f"segment {line.split()[1]}"


def _device_mib() -> int:
    """Of all devices that there are."""
    if not shutil.which("nvidia-smi"):
        return 0
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    shown = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    return sum(int(line) for line in shown.split())
