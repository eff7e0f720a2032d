"""Ours die while a submission is built.

kill: judge, zygote, worker
kind: passed
"""

hold()
