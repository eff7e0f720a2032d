"""Recurses until the native stack is full.

stage: correctness
kind: crashed
says: SIGSEGV
"""

import sys


class Endless:
    def __repr__(self):
        return repr(self)


def trial():
    sys.setrecursionlimit(1 << 30)
    repr(Endless())
