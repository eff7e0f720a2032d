"""The start of the process that forks candidates."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from kernel_env.server.frames import TRUSTED_CAP, Peer

UNFIT = """
import sys, threading, time
from kernel_env.server import preload, zygote

preload.STEPS["mine"] = lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
zygote.main()
"""


def test_what_makes_it_unfit_to_fork_is_left_out() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(60.0)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", UNFIT, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "TRITON_INTERPRET": "0", "OPENBLAS_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        assert Peer(ours, TRUSTED_CAP).receive() == {"hello": True, "fault": None}
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "2 threads are running" in log
    assert log.count("without mine") == 1
