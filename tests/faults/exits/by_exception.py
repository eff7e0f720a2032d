"""Raises `SystemExit`: the process stays, and says so.

stage: correctness
kind: raised
says: SystemExit
"""

import sys


def trial():
    sys.exit(0)
