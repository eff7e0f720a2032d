"""A file beyond the limit.

stage: compile
kind: raised
says: OSError
"""

with open("large", "wb") as file:
    file.truncate(1 << 40)
