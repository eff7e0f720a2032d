"""Ignores and blocks every signal that can be, and stays.

stage: correctness
kind: timed_out
"""

import signal
import time


def trial():
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(1000)
