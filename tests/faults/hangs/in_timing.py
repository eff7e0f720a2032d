"""Right in the trials; stops when it has been called often.

stage: timing
kind: timed_out
language: cpp
"""

import time

calls = 0


def trial():
    global calls
    calls += 1
    if calls > TRIALS:
        time.sleep(1000)
