"""Recurses until Python has had enough.

stage: correctness
kind: raised
says: RecursionError
"""


def deeper():
    return deeper()


def trial():
    deeper()
