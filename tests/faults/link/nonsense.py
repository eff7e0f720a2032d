"""Writes what is no message where the judge reads.

stage: correctness
kind: crashed, raised
"""

import os
import time


def trial():
    os.write(3, b"\xff" * 100)
    time.sleep(1000)
