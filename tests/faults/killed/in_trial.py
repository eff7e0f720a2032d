"""Ours die in the middle of a trial.

kill: judge, zygote, worker
kind: passed
"""


def trial():
    hold()
