"""Sends descriptors where the judge reads: they are not the judge's to keep.

stage: correctness
kind: crashed, timed_out, raised
"""

import array
import socket
import time


def trial():
    link = socket.socket(fileno=3)
    link.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 8))])
    time.sleep(1000)
