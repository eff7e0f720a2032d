"""Reads where there is nothing.

stage: correctness
kind: crashed
says: SIGSEGV
"""

import faulthandler


def trial():
    faulthandler._sigsegv()
