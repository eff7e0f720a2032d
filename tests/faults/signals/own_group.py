"""Kills everything in its process group.

stage: correctness
kind: crashed
says: SIGKILL
"""

import os


def trial():
    os.killpg(0, 9)
