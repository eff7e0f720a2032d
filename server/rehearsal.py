"""A Triton submission's first call, played through without a device, so that its kernels are compiled before one.

In a confined child of the zygote, on fake tensors of the task's shapes: the model is constructed, `forward` runs,
and each launch compiles its kernel for the real device and launches nothing. What comes of it lies in the
submission's own Triton cache, where its candidate finds it: the device is not held while a compiler runs.

A kernel that Triton's front end refuses is told as the submission's fault: what it compiles follows from the
kernel's text, the arguments' types, constants and the device's facts, all of which are as they will be. Whatever
else fails here, for want of data or of a device, is no verdict: it is tried there. So is a submission that asks
of its device what is not known here, and may have gone another way for that.
"""

from __future__ import annotations

import base64
import os
import pickle
import socket
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch._subclasses import fake_tensor

from . import trace
from .candidate import BUILD_NICENESS, load_submission
from .casting import cast_fake
from .frames import TRUSTED_CAP, Peer
from .layers import Plan
from .sandbox import confine
from .sketch import Fakes, fake_inputs

WARP = 32
AT_ONCE = 1.0
"""What each of an autotuner's configurations seems to take (ms): all are compiled, the choice is made later."""


class Unanswered(list[str]):
    """What a submission asked of its device that is not known here."""


class Facts(dict[str, int]):
    """A device's, see `hardware.facts`; what is missing is noted."""

    def __init__(self, facts: dict[str, int], unanswered: Unanswered) -> None:
        super().__init__(facts)
        self._unanswered = unanswered

    def __missing__(self, name: str) -> int:
        self._unanswered.append(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


class Properties(SimpleNamespace):
    """As PyTorch has them; what is missing is noted."""

    def __getattr__(self, name: str) -> Any:
        vars(self)["_unanswered"].append(name)
        raise AttributeError(name)


class Driver:
    """Triton's driver as far as compiling asks for one."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.utils = SimpleNamespace(get_device_properties=lambda device: facts)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._facts["capability"], WARP)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def benchmark(call: Callable[[], Any], *args: Any, **kwargs: Any) -> list[float]:
            call()
            return [AT_ONCE] * 3

        return benchmark


def pretend(facts: dict[str, int]) -> Unanswered:
    """From here on this process seems to have the device; to be called before the submission is imported."""
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    unanswered = Unanswered()
    known = Facts(facts, unanswered)
    driver.set_active(Driver(known))
    JITFunction.run = _compiling(JITFunction.run)
    Autotuner.check_disk_cache = _unsaved
    Autotuner.best_config = _noted("best_config", unanswered)
    _answer(known, unanswered)
    return unanswered


def rehearse(module: ModuleType, sketch: dict[str, Any], device: torch.device, precision: str = "fp32") -> None:
    """Construct and call `ModelNew`, which finds that there is a device; raises whatever that raises."""
    with Fakes(), torch.no_grad(), device:
        arguments = pickle.loads(base64.b64decode(sketch["arguments"]))  # from a child with the task alone
        model = cast_fake(module.ModelNew(*arguments), precision)
        model(*fake_inputs(sketch["inputs"], device))


def _answer(facts: Facts, unanswered: Unanswered) -> None:
    """What a submission may ask of its device, so that it takes the way that it will take there."""
    major, minor = divmod(facts["capability"], 10)
    known = Properties(
        _unanswered=unanswered,
        major=major,
        minor=minor,
        multi_processor_count=facts["multiprocessor_count"],
        shared_memory_per_block_optin=facts["max_shared_mem"],
        regs_per_multiprocessor=facts["max_num_regs"],
        warp_size=facts["warpSize"],
    )

    def start() -> None:
        unanswered.append("CUDA")
        raise RuntimeError("there is no device in this process")

    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: known,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "_lazy_init": start,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    # Some versions of torch start CUDA for fake tensors if there is one.
    vars(fake_tensor)["init_gpu_context"] = lambda device: None


def _noted(name: str, unanswered: Unanswered) -> property:
    """An attribute whose value is another on the device: which configuration is best is found out there."""

    def get(self: Any) -> Any:
        unanswered.append(name)
        return vars(self)[name]

    def put(self: Any, value: Any) -> None:
        vars(self)[name] = value

    return property(get, put)


def _unsaved(self: Any, key: Any, configs: Any, benchmark: Callable[[], object]) -> bool:
    """An autotuner keeps no times for the candidate to find: they are none."""
    benchmark()
    return False


def _compiling(run: Callable[..., Any]) -> Callable[..., Any]:
    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        named = {name: _stand_in(value) for name, value in kwargs.items()}
        kernel = run(self, *map(_stand_in, args), grid=grid, warmup=True, **named)
        _build_launcher(kernel)
        return kernel

    return compile_only


def _build_launcher(kernel: Any) -> None:
    """Older versions of Triton have a C compiler make one for each kernel's signature."""
    from triton.backends.nvidia import driver

    if hasattr(driver, "make_launcher"):
        driver.CudaLauncher(kernel.src, kernel.metadata)


def _stand_in(value: Any) -> Any:
    from triton.runtime.jit import MockTensor

    return MockTensor(value.dtype, list(value.shape)) if isinstance(value, torch.Tensor) else value


def main(link: int, spec: dict[str, Any], parent: int) -> None:
    """Entry after the fork; tells an error that is the submission's, as a candidate does, or nothing of note.

    `spec`: scratch, source, plan, environment, device, sketch, facts, precision.
    """
    from triton.compiler.errors import CompilationError

    confine(spec["scratch"], [link], parent, Plan.parse(spec["plan"]))
    os.environ.update(spec["environment"])
    os.nice(BUILD_NICENESS)
    peer, path = Peer(socket.socket(fileno=link), TRUSTED_CAP), f"{spec['source']}/{trace.NAME}"
    unanswered = pretend(spec["facts"])
    module, reply = load_submission(path), {}
    try:
        rehearse(module, spec["sketch"], torch.device(spec["device"]), spec["precision"])
    except CompilationError as error:
        if not unanswered and not _lacking(error):
            reply = {"error": "build", "message": trace.describe(error, path)}
    peer.send(reply)


def _lacking(error: BaseException | None) -> bool:
    """Whatever is raised while a kernel is read counts as its author's, a lack of memory of the host's as well."""
    while error is not None:
        if isinstance(error, (MemoryError, OSError)):
            return True
        error = error.__cause__ or error.__context__
    return False
