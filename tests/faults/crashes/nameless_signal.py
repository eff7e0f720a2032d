"""Dies by a signal that has no name, while it is built.

stage: compile
kind: crashed
says: signal 40
"""

import os

os.kill(os.getpid(), 40)
