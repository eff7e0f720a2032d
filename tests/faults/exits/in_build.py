"""Ends its process while it is built.

stage: compile
kind: crashed
says: exit code 3
"""

import os

os._exit(3)
