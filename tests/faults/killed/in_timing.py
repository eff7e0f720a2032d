"""Ours die while times are taken.

kill: judge, zygote, worker
kind: passed
language: cpp
"""

calls = 0


def trial():
    global calls
    calls += 1
    if calls > TRIALS:
        hold()
