"""Never gets through its constructor.

stage: compile
kind: timed_out
"""

import time


def construct():
    time.sleep(1000)
