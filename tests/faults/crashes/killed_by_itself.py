"""Kills its own process.

stage: correctness
kind: crashed
says: SIGKILL
"""

import os


def trial():
    os.kill(os.getpid(), 9)
