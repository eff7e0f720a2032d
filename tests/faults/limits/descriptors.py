"""Open files until there are no more to be had.

stage: correctness
kind: raised
says: Too many open files
"""

import os


def trial():
    while True:
        os.dup(0)
