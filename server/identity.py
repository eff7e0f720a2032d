"""User ids of candidates: each submission has one that no other process of this machine has.

A worker that was started as root claims a block of them. Ids go round in the block, and one is given out again
only after its processes were seen to be gone. A group id of the same number goes with each. The claim is an
abstract socket's name, which the kernel takes back with the process. The first id of a block is for ending
the others.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from .strays import collect

FIRST, LAST = 0x7000_0000, 0x7FFF_FFFF
"""Between what distributions and container engines give out and the numbers that a signed word can't hold."""
BLOCK, BLOCKS = 4096, 1024
_FEW = 1 << 14  # at the top of what a user namespace maps, where that ends below `FIRST`
_NOBODY = 2  # 65534 and 65535 have a meaning
END_S = 10.0
PAUSE_S = 0.005


class Unavailable(RuntimeError):
    """No ids can be given out here; the text says why."""


class Block:
    """Ids that are this process's until it ends."""

    def __init__(self) -> None:
        """Raises `Unavailable`."""
        if os.geteuid() != 0:
            raise Unavailable("the server was not started as root")
        low, high = _range()
        for base in range(low, min(high - BLOCK + 2, low + BLOCKS * BLOCK), BLOCK):
            if claim := _claim(base):
                self.base, self._claim = base, claim
                self._next, self._taken = 1, set[int]()
                return
        raise Unavailable("every user id of the range is in use")

    def close(self) -> None:
        """Give the ids back; nothing of theirs may run any more."""
        self._claim.close()

    def take(self) -> int:
        while True:
            uid = self.base + self._next
            self._next = self._next % (BLOCK - 1) + 1
            if uid not in self._taken:
                self._taken.add(uid)
                return uid

    def give_back(self, uid: int) -> None:
        """Only once nothing of it is left."""
        self._taken.discard(uid)

    def end_everyone(self) -> None:
        """Whatever processes have ids of this block."""
        for uid in _ids(self.base, self.base + BLOCK - 1):
            end_all(uid, self.base)

    def sweep(self) -> None:
        """The same for blocks that nobody claims: their worker has ended, and left some behind."""
        low, high = _range()
        for base in {low + (uid - low) // BLOCK * BLOCK for uid in _ids(low, high)}:
            claim = self._claim if base == self.base else _claim(base)
            if claim is None:
                continue
            for uid in _ids(base, base + BLOCK - 1):
                end_all(uid, self.base)
            if base != self.base:
                claim.close()


def _claim(base: int) -> socket.socket | None:
    """None if it is another worker's."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0kernel-env-uids-{base}")
    except OSError:
        claim.close()
        return None
    return claim


def _ids(low: int, high: int) -> list[int]:
    """Those of a range that some process has."""
    return sorted({uid for uid in _owners().values() if low <= uid <= high})


def _range() -> tuple[int, int]:
    top = min(_mapped_top("/proc/self/uid_map"), _mapped_top("/proc/self/gid_map"))
    return (FIRST, LAST) if top >= LAST else (max(top - _NOBODY - _FEW, 1), top - _NOBODY)


def _mapped_top(path: str) -> int:
    """The highest id that exists in this user namespace."""
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    return max((int(inside) + int(count) - 1 for inside, _, count in lines), default=0)


def become(uid: int) -> None:
    """For good. Raises `OSError`."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def hand_over(path: str, uid: int) -> None:
    """A folder and what is in it by now become the user's own."""
    for folder, _, files in os.walk(path):
        for name in files:
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)
        os.chown(folder, uid, uid)


def show(path: str, uid: int) -> None:
    """A folder and its files become readable for the user, and stay ours."""
    for folder, _, files in os.walk(path):
        for name in files:
            os.chown(os.path.join(folder, name), -1, uid)
            os.chmod(os.path.join(folder, name), 0o640)
        os.chown(folder, -1, uid)
        os.chmod(folder, 0o750)


def belongings(folder: str, uid: int) -> list[str]:
    """What this user owns in a folder, by path."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    return [entry.path for entry in entries if _owner(entry) == uid]


def _owner(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except FileNotFoundError:
        return -1


def end_all(uid: int, helper: int) -> int:
    """Kill every process of a user until none is seen; how many are left after `END_S`. Blocking.

    One call kills them all at one moment, so that none can fork away. It is made by a process that is that user in
    effect but `helper` in name: the user's processes can't signal it. Only where we are root.
    """
    deadline = time.monotonic() + END_S
    while left := living(uid):
        if time.monotonic() > deadline:
            return left
        pid = os.fork()
        if pid == 0:
            _kill_everyone(uid, helper)
        collect(pid)
        time.sleep(PAUSE_S)
    return 0


def _kill_everyone(uid: int, helper: int) -> None:
    try:
        os.setgroups([])
        os.setresgid(helper, helper, helper)
        os.setresuid(helper, uid, helper)
        os.kill(-1, signal.SIGKILL)
    finally:
        os._exit(0)


def living(uid: int) -> int:
    """How many processes of a user there are, those not counted that only wait to be collected."""
    return sum(owner == uid and not _dead(pid) for pid, owner in _owners().items())


def _owners() -> dict[int, int]:
    """The user in effect of each process: the owner of its entry in /proc."""
    owners = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(FileNotFoundError):
                owners[int(name)] = os.stat(f"/proc/{name}").st_uid
    return owners


def _dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
