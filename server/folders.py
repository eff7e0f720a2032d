"""Removes a folder that a candidate has written to, whatever it left there.

Trees deeper than Python can recurse and paths longer than the kernel takes are what `rm` is made for; modes are
opened where they keep it out. Bounded; what can't be removed is logged and left.
"""

from __future__ import annotations

import logging
import os
import subprocess

LIMIT_S = 60.0

_logger = logging.getLogger(__name__)


def remove(path: str) -> None:
    """Blocking; never raises."""
    for command in (["rm", "-rf", "--", path], ["chmod", "-R", "u+rwx", "--", path], ["rm", "-rf", "--", path]):
        if not os.path.lexists(path):
            return
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            _logger.error("%s: %s", path, error)
    if os.path.lexists(path):
        _logger.error("%s could not be removed", path)
