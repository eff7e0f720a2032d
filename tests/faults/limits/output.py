"""A hundred megabytes of output.

kind: passed
"""

import sys


def trial():
    print("x" * 20_000_000)
    print("x" * 20_000_000, file=sys.stderr)
