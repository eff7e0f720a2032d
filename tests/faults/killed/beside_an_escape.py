"""Ours die while a process of the submission has left session and parents behind.

kill: zygote, worker
kind: crashed
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
    hold()
    os._exit(0)
