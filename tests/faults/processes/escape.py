"""A grandchild that leaves session and parents behind, and a process that ends at once.

stage: correctness
kind: crashed
says: exit code 0
"""

import os
import time


def trial():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            note()
            time.sleep(1000)
        os._exit(0)
    os.wait()
    time.sleep(0.5)
    os._exit(0)
