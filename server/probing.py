"""Finds out which layers of the sandbox hold on this machine, by trying: a child of the zygote, once for a worker.

Each layer is put on alone in a process of its own, which then tries what the layer must forbid. Then one process
does it all as a candidate does and tries everything again, forbidden and needed, the device included. A layer
without which that works, and with which it does not, counts as unavailable: honest submissions come first, and
what is missing is told. The answer is the plan for this worker's candidates, and the state of every layer.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from . import acts, capabilities, identity, kernel, landlock, nodes, paths, sandbox, seccomp
from .acts import Act, attempt
from .frames import TRUSTED_CAP, Peer
from .layers import SWITCHED_OFF, Layer, Plan, Report
from .strays import end_strays

SETTLED_S = 2.0
SOON_S = 0.02
BY_PYTHON = "LC_CTYPE"  # where the locale is C


def main(link: int, spec: dict[str, Any], parent: int) -> None:
    """Entry after the fork. `spec`: scratch, plan (what is wished), mode, secret, port, ours, device,
    environment (what differs from the zygote's) and allowed (names that there may be in it).

    The worker waits for one answer; without it, it does not start.
    """
    os.setsid()
    sandbox.die_with_parent(parent)
    sandbox.adopt_orphans()
    os.environ.update(spec["environment"])
    peer = Peer(socket.socket(fileno=link), TRUSTED_CAP)
    probe = Probe(spec)
    try:
        plan = probe.settle()
    except (OSError, RuntimeError) as error:
        peer.send({"failed": str(error)})
        return
    peer.send({"plan": plan.json(), "layers": probe.report.json()})


class Probe:
    """`secret` is a file, `port` a listening socket, `ours` the processes that candidates must not touch."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._scratch: str = spec["scratch"]
        self._wish = Plan.parse(spec["plan"])
        self._off = spec["mode"] == "off"
        self._secret: str = spec["secret"]
        self._port: int = spec["port"]
        self._ours: list[int] = spec["ours"]
        self._cuda = spec["device"] == "cuda"
        self._allowed: list[str] = spec["allowed"]
        self.report = Report()

    def settle(self) -> Plan:
        self._basics()
        if self._off:
            self.report.layers |= {name: Layer("off") for name in SWITCHED_OFF}
            self.report.set("provenance", self._provenance())
            return Plan()
        return self._together(self._each())

    def _basics(self) -> None:
        scratch, report = self._scratch, self.report
        report.set("limits", attempt(_do(os.chdir, scratch), _do(sandbox.limit), acts.is_limited))
        report.set("environment", attempt(_do(sandbox.settle_in, scratch), self._environment))
        report.set("scratch", attempt(lambda: self._private(), _do(sandbox.settle_in, scratch)))
        report.set("death_signal", self._death())
        report.set("cleanup", self._cleanup(self._wish.uid))

    def _each(self) -> Plan:
        """What each layer does alone."""
        report, wish = self.report, self._wish
        report.set("uid", self._uid() if wish.uid else "the server was not started as root")
        report.set("privileges", attempt(_do(capabilities.drop), _do(kernel.prctl, kernel.NO_NEW_PRIVS, 1), _bare))
        report.set("landlock", self._landlock(landlock.FILES_ABI, [acts.reads(self._secret)]))
        report.set("landlock_tcp", self._landlock(landlock.TCP_ABI, [acts.connects(self._port)]))
        report.set("landlock_scopes", self._landlock(landlock.SCOPES_ABI, self._signals()))
        report.set("seccomp", self._filter())
        return replace(
            wish,
            confined=True,
            uid=wish.uid if report.active("uid") else 0,
            files=report.active("landlock"),
            scopes=report.active("landlock_scopes") or report.active("landlock_tcp"),
            seccomp=report.active("seccomp"),
        )

    def _together(self, plan: Plan) -> Plan:
        """The most of `plan` that honest submissions can work under; raises `RuntimeError` if that is nothing."""
        first = ""
        for lost, less in _fewer(plan):
            if self._wish.uid:
                identity.hand_over(self._scratch, less.uid or os.getuid())
            why = attempt(*self._whole(less), lambda: acts.works(self._scratch), *self._device())
            first = first or why or ""
            if why is None:
                for name in lost:
                    self.report.set(name, f"with it, what submissions need fails: {first}")
                self.report.set("memory", attempt(*self._whole(less), *self._looks()))
                self.report.set("provenance", self._provenance(*self._whole(less)))
                return less
        raise RuntimeError(f"nothing works in a candidate's process: {first}")

    def _whole(self, plan: Plan) -> list[Act]:
        return [lambda: sandbox.confine(self._scratch, [*self._open()], os.getppid(), plan)]

    def _open(self) -> Iterator[int]:
        """The pipe that an attempt answers through is one of these."""
        return (int(name) for name in os.listdir("/proc/self/fd"))

    def _device(self) -> list[Act]:
        return [acts.drives_a_device] if self._cuda else []

    def _provenance(self, *confining: Act) -> str | None:
        return attempt(*confining, acts.records_kernels) if self._cuda else "on a CPU kernels have no names"

    def _looks(self) -> list[Act]:
        return [partial(acts.looks_into, pid) for pid in self._ours]

    def _signals(self) -> list[Act]:
        return [acts.signals(pid) for pid in self._ours]

    def _environment(self) -> str | None:
        foreign = sorted(set(os.environ) - {*self._allowed, *sandbox.OWN_ENVIRONMENT, BY_PYTHON})
        return f"it holds {', '.join(foreign)}" if foreign else None

    def _private(self) -> str | None:
        status = os.stat(self._scratch)
        if status.st_mode & 0o077 or status.st_uid not in (self._wish.uid, os.getuid()):
            return "others may look into it"
        return None

    def _uid(self) -> str | None:
        uid = self._wish.uid
        try:
            identity.hand_over(self._scratch, uid)
        except OSError as error:
            return f"files can't be handed over: {error.strerror}"
        become = _do(identity.become, uid)
        if why := attempt(become, lambda: acts.works(self._scratch)):
            return f"another user can't work here: {why}"
        return (
            attempt(become, acts.reads(self._secret), *self._signals(), *self._looks(), acts.gains)
            or attempt(become, acts.cannot_multiply)
            or self._stoppable(become)
        )

    def _stoppable(self, become: Act) -> str | None:
        """The judge must be able to stop a candidate, and has what we have."""
        pid = _fork(become, _stay)
        time.sleep(SOON_S)
        try:
            os.kill(pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            return "the server may not signal another user's processes"
        finally:
            os.waitpid(pid, 0)
        return None

    def _landlock(self, needed: int, forbidden: list[Act]) -> str | None:
        if landlock.abi() < needed:
            return (
                f"the kernel's Landlock has ABI {landlock.abi()}, not {needed}"
                if landlock.abi()
                else "no Landlock"
            )
        plan = self._wish
        read, write = plan.read, (*plan.write, paths.OWN_PROCESS, self._scratch)
        files = needed == landlock.FILES_ABI

        def put_on() -> None:
            kernel.prctl(kernel.NO_NEW_PRIVS, 1)
            landlock.restrict(read, write, files)

        return attempt(put_on, *forbidden)

    def _filter(self) -> str | None:
        if not seccomp.supported():
            return f"no filter is known for {os.uname().machine}"
        put_on = _do(seccomp.load, self._wish.protected)
        return attempt(_do(kernel.prctl, kernel.NO_NEW_PRIVS, 1), put_on, acts.calls, *self._signals())

    def _death(self) -> str | None:
        """A child that asked for it ends with its parent."""
        return self._ends(lambda: _orphan(lambda: sandbox.die_with_parent(os.getppid())), lambda: None)

    def _cleanup(self, uid: int) -> str | None:
        """What has left its session and its parents behind is ended."""

        def escape() -> None:
            if uid:
                identity.become(uid)
            _orphan(os.setsid)

        def end() -> str | None:
            left = identity.end_all(uid, self._wish.helper) if uid else 0
            return "processes are left" if left + end_strays().left else None

        return self._ends(escape, end)

    def _ends(self, start: Callable[[], None], end: Callable[[], str | None]) -> str | None:
        """Is all that `start` leaves running gone after `end`? It all holds one pipe open."""
        read, write = os.pipe()
        pid = _fork(os.setsid, start)
        os.close(write)
        os.waitpid(pid, 0)
        why = end() or _closed_within(read, SETTLED_S)
        os.close(read)
        end_strays()
        return why


def _do(function: Callable[..., object], *arguments: object) -> Act:
    def act() -> None:
        function(*arguments)

    return act


def _orphan(prepare: Callable[[], None]) -> None:
    """Leave a child behind that stays."""
    _fork(prepare, _stay)
    time.sleep(SOON_S)


def _stay() -> None:
    time.sleep(acts.LIMIT_S)


def _fork(*life: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            for part in life:
                part()
        finally:
            os._exit(0)
    return pid


def _closed_within(read: int, seconds: float) -> str | None:
    ready, _, _ = select.select([read], [], [], seconds)
    return None if ready else "a process was left"


def _bare() -> str | None:
    if capabilities.held():
        return "capabilities are left"
    if kernel.prctl(kernel.GET_NO_NEW_PRIVS) != 1:
        return "no_new_privs is not set"
    return None


def _fewer(plan: Plan) -> Iterator[tuple[list[str], Plan]]:
    """The plan, then with one thing less, then with several; and the layers that are lost."""
    yield [], plan
    if plan.files:
        yield [], replace(plan, write=tuple(dict.fromkeys((*plan.write, *nodes.of_all_gpus()))))
    landlocks = ["landlock", "landlock_tcp", "landlock_scopes"]
    no_landlock = replace(plan, files=False, scopes=False)
    yield landlocks, no_landlock
    yield ["uid"], replace(plan, uid=0)
    yield ["seccomp"], replace(plan, seccomp=False)
    yield [*landlocks, "uid", "seccomp"], replace(no_landlock, uid=0, seccomp=False)
