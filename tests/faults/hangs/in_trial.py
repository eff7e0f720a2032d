"""A Python loop without end.

stage: correctness
kind: timed_out
"""


def trial():
    while True:
        pass
