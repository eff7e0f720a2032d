"""Stops its own process.

stage: correctness
kind: timed_out
"""

import os
import signal


def trial():
    os.kill(os.getpid(), signal.SIGSTOP)
