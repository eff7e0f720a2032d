"""Too little device memory: which errors say so, and whose fault it is.

A submission answers for it if it held several times what the reference needs; otherwise it is as it seems. To
find out, the submission's process is ended, and the reference may have to be tried without it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import driver
from .layout import LayoutError
from .link import CandidateLink
from .memory import MemoryFault
from .outcome import Outcome, OutOfMemory
from .reference import TaskFault

HOARD, HOARD_BYTES = 3, 2 << 30
ERRORS = (torch.OutOfMemoryError, torch.AcceleratorError, MemoryFault)
"""That may say so, see `says_so`."""


def says_so(error: BaseException) -> bool:
    """Of one of `ERRORS`: is it for want of memory? Any other leaves the device's context bad."""
    return not isinstance(error, torch.AcceleratorError) or driver.lacked_memory(error)


def blamed(fault: Outcome, link: CandidateLink, device: torch.device, needed: Callable[[], int]) -> Outcome:
    """`fault`, or what the submission did; `needed` gives the bytes that the reference needs."""
    if device.type != "cuda":
        return fault
    free = torch.cuda.mem_get_info(device)[0]
    link.end()
    held = torch.cuda.mem_get_info(device)[0] - free
    try:
        wanted = needed()
    except (*ERRORS, TaskFault, LayoutError) as error:
        if not says_so(error):
            raise
        return fault
    if held < HOARD * wanted + HOARD_BYTES:
        return fault
    message = (
        f"the submission held {held >> 20} MiB of the device's memory, which left too little for the reference"
        f" beside it; that needs {wanted >> 20} MiB"
    )
    return OutOfMemory(stage=link.stage, message=message)
