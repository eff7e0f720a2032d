"""What a submission has changed in its process: settings, current stream, Python threads, mapped code.

In the candidate's process. Settings and threads are compared before and after each call of `forward`, as nothing
honest leaves them changed there; mapped code after import, construction and calls. Settings reach neither the
reference nor what is expected, which live elsewhere: a change is refused for what it is, not for what it gains.
Native threads stay out of it (OpenMP keeps its own); `kin` looks at them and at processes from outside.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from . import linkage
from .mapped import DELETED, Mapped, mapped

ENDING_S = 0.2
RARELY_S = 0.5
_POLL_S = 0.005
_VENDOR = re.compile(r"lib(?:cublas|cudnn|cufft|cusolver|cusparse|cutensor|mkl|dnnl|onednn|openblas|blas|lapack)")
_ANONYMOUS = "/memfd:"
_frames = sys._current_frames


class Census:
    """`violate` is told what is wrong. `scratch` is the folder where a submission builds, `roots` are those of the
    system, where else code may come from. To be made before the import.
    """

    def __init__(
        self, violate: Callable[[str], object], device: torch.device, scratch: str, roots: Sequence[str]
    ) -> None:
        self._violate = violate
        self._device = device
        self._roots = tuple(f"{root}/" for root in roots)
        self._scratch = f"{Path(scratch).resolve()}/"
        self._known = set(mapped())
        self._ours = _libraries(self._known)
        self.own: list[Mapped] = []
        self._looked = 0.0

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Around calls of `forward`."""
        settings, threads = _settings(self._device), set(_frames())
        yield
        changed = [name for name, value in _settings(self._device).items() if settings[name] != value]
        if changed:
            self._violate(
                f"forward() changed {', '.join(changed)} of the process:"
                " set it where ModelNew is constructed, or put it back"
            )
        if _left(threads):
            self._violate("forward() left a Python thread running: end it in the call that starts it")

    def modules(self, rarely: bool = False) -> None:
        """What has been mapped since the last time; to look takes some ms, so `rarely` leaves most looks out."""
        now = time.monotonic()
        if rarely and now < self._looked + RARELY_S:
            return
        self._looked = now
        for path, module in mapped().items():
            if path not in self._known:
                self._known.add(path)
                self._judge(path.removesuffix(DELETED), module)

    def _judge(self, path: str, module: Mapped) -> None:
        strings = module.strings()
        launcher = linkage.is_launcher(strings)
        if launcher or path.startswith(self._scratch):
            if not launcher:
                self.own.append(module)
            found = linkage.problem(strings)
            if found is not None:
                self._violate(found)
        elif not path.startswith(self._roots) and (not path.startswith(_ANONYMOUS) or module.is_elf()):
            self._violate(f"code was loaded from {Path(path).name}, which the submission did not build")
        elif _VENDOR.match(Path(path).name) and not path.startswith(self._ours):
            self._violate(f"{Path(path).name} was loaded, a vendor library: write the kernel yourself")


def _libraries(known: set[str]) -> tuple[str, ...]:
    """The folders from which PyTorch loads vendor libraries when it needs them, in `__init__` for instance."""
    folders = {f"{Path(path).parent}/" for path in known if _VENDOR.match(Path(path).name)}
    return tuple(folders | {f"{Path(torch.__file__).parent}/"})


def _settings(device: torch.device) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")),
        "determinism": torch._C._get_deterministic_algorithms(),
        "cuDNN's switches": (torch._C._get_cudnn_benchmark(), torch._C._get_cudnn_deterministic()),
        "TF32": tuple(torch._C._get_fp32_precision_getter("cuda", op) for op in ("matmul", "conv")),
        "the number of threads": torch.get_num_threads(),
        "the function modes": torch._C._len_torch_function_stack(),
        "the dispatch modes": torch._C._len_torch_dispatch_stack(),
    }
    if device.type == "cuda":
        settings["the current stream"] = torch.cuda.current_stream(device).cuda_stream
    return settings


def _left(threads: set[int]) -> bool:
    """Threads that run Python and did not before; one that has been joined may take a moment to go."""
    deadline = time.monotonic() + ENDING_S
    while _frames().keys() - threads:
        if time.monotonic() > deadline:
            return True
        time.sleep(_POLL_S)
    return False
