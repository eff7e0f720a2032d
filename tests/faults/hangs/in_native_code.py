"""Native code that never returns and never lets another thread run.

stage: correctness
kind: timed_out
"""

import re


def trial():
    re.match("(a+)+$", "a" * 60 + "b")
