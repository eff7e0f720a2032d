"""Fills its folder: many files, some of them large, and folders in folders.

kind: passed
"""

import os

home = os.getcwd()
if not os.path.exists("a"):
    for number in range(4):
        with open(f"{number}", "wb") as file:
            file.write(bytes(8 << 20))
    for _ in range(2000):
        os.mkdir("a")
        os.chdir("a")
    os.chdir(home)
