"""A Triton submission's first call, played through without a device, so that its kernels are compiled before one.

In a confined child of the zygote, on fake tensors of the task's shapes: the model is constructed, `forward` runs,
and each launch compiles its kernel for the real device and launches nothing. What comes of it lies in the
submission's own Triton cache, where its candidate finds it: the device is not held while a compiler runs.

A kernel that Triton's front end refuses is told as the submission's fault: what it compiles follows from the
kernel's text, the arguments' types, constants and the device's facts, all of which are as they will be. Whatever
else fails here, for want of data or of a device, is no verdict: it is tried there.
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


class Driver:
    """Triton's driver as far as compiling asks for one. `facts` are the device's, see `hardware.facts`."""

    def __init__(self, facts: dict[str, int]) -> None:
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


def rehearse(
    module: ModuleType,
    sketch: dict[str, Any],
    facts: dict[str, int],
    device: torch.device,
    precision: str = "fp32",
) -> None:
    """Construct and call `ModelNew`, which finds that there is a device; raises whatever that raises."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    driver.set_active(Driver(facts))
    JITFunction.run = _compiling(JITFunction.run)
    _pretend(facts)
    with Fakes(), torch.no_grad(), device:
        arguments = pickle.loads(base64.b64decode(sketch["arguments"]))  # from a child with the task alone
        model = cast_fake(module.ModelNew(*arguments), precision)
        model(*fake_inputs(sketch["inputs"], device))


def _pretend(facts: dict[str, int]) -> None:
    """Answer what a submission may ask of its device, so that it takes the way that it will take there."""
    major, minor = divmod(facts["capability"], 10)
    known = SimpleNamespace(
        major=major,
        minor=minor,
        multi_processor_count=facts["multiprocessor_count"],
        shared_memory_per_block_optin=facts["max_shared_mem"],
        regs_per_multiprocessor=facts["max_num_regs"],
        warp_size=facts["warpSize"],
    )
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: known,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    vars(fake_tensor)["init_gpu_context"] = lambda device: (
        None
    )  # some versions of torch start CUDA if there is one


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
    module, reply = load_submission(path), {}
    try:
        rehearse(module, spec["sketch"], spec["facts"], torch.device(spec["device"]), spec["precision"])
    except CompilationError as error:
        reply = {"error": "build", "message": trace.describe(error, path)}
    peer.send(reply)
