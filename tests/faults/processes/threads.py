"""Threads until there are no more to be had.

stage: correctness
kind: raised
says: RuntimeError
"""

import threading
import time


def trial():
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    raise RuntimeError("2000 threads")
