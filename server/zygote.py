"""The process that forks candidates: torch and triton imported once, no device context ever, one thread.

`python -m kernel_env.server.zygote FD` serves the worker over an inherited socket. `fork` makes a child (its
link, stdout and stderr ride along as descriptors); `reap` collects a child that has ended, kills its process
group and every stray descendant that this process, a subreaper, has adopted. The worker decides when; so a pid
stays valid until it says `reap`. A closed socket ends the zygote and all its children.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from . import candidate, preload, sandbox
from .frames import TRUSTED_CAP, FrameError, Peer
from .strays import collect, end_strays


class Zygote:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._children: set[int] = set()

    def serve(self) -> None:
        while True:
            try:
                request, fds = self._peer.receive_with_fds()
            except FrameError:
                break
            if request["op"] == "fork":
                self._peer.send({"pid": self._fork(request["spec"], fds)})
            else:
                self._peer.send(self._reap(request["pid"]))
        for pid in list(self._children):
            self._reap(pid)

    def _fork(self, spec: dict[str, Any], fds: list[int]) -> int:
        link, stdout, stderr = fds
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_candidate(link, stdout, stderr, spec, parent)
        for fd in fds:
            os.close(fd)
        self._children.add(pid)
        return pid

    def _reap(self, pid: int) -> dict[str, Any]:
        """Kill what is left of a child, collect it, and end its strays; status as `waitstatus_to_exitcode`."""
        if pid not in self._children:
            return {"status": None, "strays": 0}
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = collect(pid)
        self._children.discard(pid)
        return {"status": status, "strays": end_strays(self._children)}


def _become_candidate(link: int, stdout: int, stderr: int, spec: dict[str, Any], parent: int) -> None:
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        candidate.main(link, spec, parent)
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    sandbox.die_with_parent(int(sys.argv[2]))
    sandbox.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    peer = Peer(sock, TRUSTED_CAP)
    preload.prepare()
    fault = preload.dirty()
    peer.send({"hello": True, "fault": fault})
    if fault is None:
        gc.collect()
        gc.freeze()
        Zygote(peer).serve()
    os._exit(0)  # interpreter teardown of triton's bindings only costs time and prints warnings


if __name__ == "__main__":
    main()
