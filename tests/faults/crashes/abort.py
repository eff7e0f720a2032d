"""Aborts while it is constructed.

stage: compile
kind: crashed
says: SIGABRT
"""

import os


def construct():
    os.abort()
