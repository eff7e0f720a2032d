"""The process that forks candidates: torch and triton imported once, no device context ever, one thread.

`python -m kernel_env.server.zygote FD [SKIP...]` serves the worker over an inherited socket (`SKIP`: see
`preload`). `prepare` imports what a language needs. `fork` makes a child (link, stdout and stderr ride along as
descriptors); `reap` collects a child that has ended, kills its process group, whatever else has the child's user
id, and every stray descendant that this process, a subreaper, has adopted. The worker decides when; so a pid stays
valid until it says `reap`. A closed socket ends the zygote and all its children: it asks for no death signal, as
it cleans up after a worker that was killed.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import candidate, hatches, identity, preload, probing, sandbox
from .frames import TRUSTED_CAP, FrameError, Peer
from .layers import Plan
from .strays import collect, end_strays

_logger = logging.getLogger(__name__)


class Zygote:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._plans: dict[int, Plan] = {}

    def serve(self) -> None:
        while True:
            try:
                request, fds = self._peer.receive_with_fds()
            except FrameError:
                break
            if request["op"] == "fork":
                self._peer.send({"pid": self._fork(request["spec"], fds)})
            elif request["op"] == "prepare":
                fault = preload.prepare_language(request["runtime"])
                _take_stock()
                unfit = preload.dirty()
                self._peer.send({"fault": fault or unfit, "fit": unfit is None})
            else:
                self._peer.send(self._reap(request["pid"]))
        for pid in list(self._plans):
            self._reap(pid)

    def _fork(self, spec: dict[str, Any], fds: list[int]) -> int:
        link, stdout, stderr = fds
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_candidate(link, stdout, stderr, spec, parent)
        for fd in fds:
            os.close(fd)
        self._plans[pid] = Plan.parse(spec["plan"])
        return pid

    def _reap(self, pid: int) -> dict[str, Any]:
        """Kill what is left of a child, collect it, and end its strays; status as `waitstatus_to_exitcode`."""
        if pid not in self._plans:
            return {"status": None, "strays": 0, "left": 0}
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = collect(pid)
        plan = self._plans.pop(pid)
        left = identity.end_all(plan.uid, plan.helper) if plan.uid else 0
        strays = end_strays(self._plans)
        return {"status": status, "strays": strays.ended, "left": left + strays.left}


def _become_candidate(link: int, stdout: int, stderr: int, spec: dict[str, Any], parent: int) -> None:
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if spec.get("cores"):
            os.sched_setaffinity(0, spec["cores"])
        _main(spec["role"])(link, spec, parent)
        status = 0
    finally:
        os._exit(status)


def _main(role: str) -> Callable[[int, dict[str, Any], int], None]:
    if role in ("sketch", "rehearsal"):
        from . import rehearsal, sketch  # loaded beforehand where they are used (see `preload`)

        return sketch.main if role == "sketch" else rehearsal.main
    return probing.main if role == "probe" else candidate.main


def _take_stock() -> None:
    """After imports, before forks: who has bound what candidates may not call, and what need not be collected."""
    hatches.survey()
    gc.collect()
    gc.freeze()


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    sandbox.adopt_orphans()
    sandbox.close_to_others()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    peer = Peer(sock, TRUSTED_CAP)
    skip = sys.argv[2:]
    culprit = preload.prepare(skip)
    fault = preload.dirty()
    if culprit is not None:
        _logger.warning("%s: again, without %s", fault, culprit)
        os.execv(sys.executable, [*sys.orig_argv, culprit])
    peer.send({"hello": True, "fault": fault})
    if fault is None:
        _take_stock()
        Zygote(peer).serve()
    os._exit(0)  # interpreter teardown of triton's bindings only costs time and prints warnings


if __name__ == "__main__":
    main()
