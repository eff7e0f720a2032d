"""More host memory than there is.

stage: correctness
kind: out_of_memory
"""


def trial():
    bytes(1 << 60)
