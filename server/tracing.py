"""When the compiler of a language traces a kernel: PyTorch then runs on tensors without contents.

Such a compiler calls PyTorch's operators, on fake tensors, and switches dispatch modes while it does. The dispatch
guard lets the former pass and `hatches` the latter, but only between `begin` and `end` on the same thread, and the
switches only where the compiler or PyTorch on its behalf asks: no code of the submission's may stand between. What
a real tensor takes part in is judged as ever.
"""

from __future__ import annotations

import os
import sysconfig
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import torch
from torch._subclasses.fake_tensor import FakeTensor

_BEHALF = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parent))
_STANDARD = f"{sysconfig.get_path('stdlib')}{os.sep}"
_PACKAGES = f"{sysconfig.get_path('purelib')}{os.sep}"


class Tracing:
    """`compiler` is the folder of its package."""

    def __init__(self, compiler: str) -> None:
        self._compiler = compiler + os.sep
        self._here = threading.local()

    def begin(self) -> None:
        self._here.depth = self._depth + 1

    def end(self) -> None:
        self._here.depth = self._depth - 1

    @property
    def active(self) -> bool:
        return self._depth > 0

    @property
    def _depth(self) -> int:
        return getattr(self._here, "depth", 0)

    def vouches(self, frame: FrameType | None) -> bool:
        """Whether it is the compiler that asks, `frame` being that of whoever does."""
        while self.active and frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._compiler):
                return True
            if not file.startswith(_BEHALF) and (not file.startswith(_STANDARD) or file.startswith(_PACKAGES)):
                return False
            frame = frame.f_back
        return False

    @staticmethod
    def contentless(tensors: Iterable[torch.Tensor]) -> bool:
        """Whether all are fake; a subclass of fake tensors is a submission's own, and is not."""
        return all(type(tensor) is FakeTensor for tensor in tensors)
