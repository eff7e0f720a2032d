"""A compiler that waits for input for ever.

stage: compile
kind: timed_out
language: cpp
needs: g++
"""

import os

from torch.utils.cpp_extension import load_inline

os.mkfifo("pipe")
load_inline("endless", "int one() { return 1; }", extra_cflags=["-include", os.path.abspath("pipe")])
