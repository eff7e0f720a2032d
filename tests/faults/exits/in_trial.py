"""Ends its process as if all were well.

stage: correctness
kind: crashed
says: exit code 0
"""

import os


def trial():
    os._exit(0)
