"""Never gets through its import.

stage: compile
kind: timed_out
"""

import time

time.sleep(1000)
