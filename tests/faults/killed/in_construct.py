"""Ours die while a submission is constructed.

kill: judge, zygote, worker
kind: passed
"""


def construct():
    hold()
