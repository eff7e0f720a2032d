"""Twenty processes in sessions of their own; half of them fork and end, over and over.

stage: compile
kind: crashed
"""

import os
import time

if os.path.exists("seen"):
    for number in range(20):
        if os.fork() == 0:
            os.setsid()
            note()
            while number % 2 == 0:
                if os.fork():
                    os._exit(0)
                os.setsid()
            time.sleep(1000)
    time.sleep(1)
    os._exit(0)
open("seen", "w").close()
