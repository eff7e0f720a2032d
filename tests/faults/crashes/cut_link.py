"""Closes its process's link to the evaluator and lives on: no death, and told from one.

stage: correctness
kind: crashed
says: link
"""

import os
import time


def trial():
    os.closerange(3, 20)
    time.sleep(1000)
