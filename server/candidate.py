"""The process that runs a submission. Single-use; holds nothing worth stealing; its word is a hint.

Forked from the zygote, it confines itself, then serves the judge's requests over one link until the link
closes: open the shared memory, import, construct, run a trial, run a timed block. Expected values, seeds,
comparison, clock and verdict are elsewhere. It reports what went wrong as a kind from a closed set and a
capped text. A build child is the same process without a device: it only imports.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from . import draws, driver, hatches, paths, trace
from .activity import Recorder
from .casting import cast_model
from .census import Census
from .context import Context, pace
from .frames import TRUSTED_CAP, FrameError, Peer
from .guard import DispatchGuard, GuardViolation
from .laps import Stopwatch
from .layers import Plan
from .layout import Slot, dtype_name, flatten, load, unflatten
from .memory import Region, open_region
from .origins import Origins
from .perturbed import perturbed
from .preload import CompilerError, triton_errors
from .random_weights import random_weights
from .reference import seed_process
from .sandbox import confine
from .undrawn import sparingly
from .words import Words

if TYPE_CHECKING:
    from .languages import Runtime

BUILD_NICENESS = 10
RECORDED = ("recorded", "profiled")

_NEED_DEVICE = (RuntimeError, AssertionError, OSError, MemoryError)
"""What an import raises that asks for a device where there is none; other exceptions come again anyway."""


class OutputError(Exception):
    """What `forward` returned is not what the reference returns in kind, shape, dtype or device."""


class Candidate:
    """The submission's side of the link; each `on_*` method answers one request."""

    def __init__(self, peer: Peer, device: torch.device, spec: dict[str, Any]) -> None:
        self._peer = peer
        self._path = f"{spec['source']}/{trace.NAME}"
        self._device = device
        self._guard = DispatchGuard(device, self._tell)
        self._guarded = guarded = spec["guarded"]
        self._watch: AbstractContextManager[Any] = self._guard if guarded else nullcontext()
        self._census: Census | None = None
        self._runtime: Runtime | None = None
        if guarded:
            roots = Plan.parse(spec["plan"]).read or paths.readable([])
            self._census = Census(self._guard.violate, device, spec["scratch"], roots)
            if spec["runtime"]:
                self._runtime = import_module(spec["runtime"])
                self._runtime.attend(self._guard)
            hatches.close(self._guard, device)
        self._is_twin = spec["twin"]
        self._context = Context() if self._is_twin and device.type == "cuda" else None
        self._stopwatch = Stopwatch(device)
        self._region: Region | None = None
        self._words: list[Words] = []
        self._module: ModuleType | None = None
        self._model: Any = None

    def _tell(self, violation: str) -> None:
        self._peer.send({"error": "violation", "message": trace.clip(violation)})

    def serve(self) -> None:
        """Answer requests until the judge closes the link."""
        while True:
            try:
                request, fds = self._peer.receive_with_fds()
            except FrameError:
                return
            handler: Callable[[dict[str, Any], list[int]], dict[str, Any]] = getattr(self, f"on_{request['op']}")
            self._peer.send(self._attempt(handler, request, fds))

    def _attempt(
        self,
        handler: Callable[[dict[str, Any], list[int]], dict[str, Any]],
        request: dict[str, Any],
        fds: list[int],
    ) -> dict[str, Any]:
        try:
            reply = handler(request, fds)
            if request.get("op") != "queue":
                self._synchronize()  # what was launched when the handler's tensors went is no burden of others
        except BaseException as error:  # the one boundary round the submission: it may raise anything
            reply = self._failure(error)
        if self._guard.violations:
            return {"error": "violation", "message": trace.clip("; ".join(self._guard.violations))}
        return reply

    def _failure(self, error: BaseException) -> dict[str, Any]:
        kind = "raised"
        message = trace.describe(error, self._path)
        if isinstance(error, OutputError):
            kind, message = "output", str(error)
        elif isinstance(error, CompilerError):
            kind, message = "build", trace.compiler_errors(str(error))
        elif isinstance(error, (*triton_errors(), *(self._runtime.errors() if self._runtime else ()))):
            kind = "build"
        elif isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            kind = "memory"
        elif isinstance(error, GuardViolation):
            kind = "violation"
        return {"error": kind, "message": message, "final": not isinstance(error, _NEED_DEVICE)}

    def on_pace(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        return {"us": pace()}

    def on_draw(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The twin's first request, if at all: PyTorch has not started CUDA yet."""
        return {"us": self._context.draw(request["limit"], request["quick"]) if self._context else 0.0}

    def on_open(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        self._region = open_region(request["handle"], fds, self._device)
        return {}

    def on_import(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        with self._models():
            self._module = load_submission(self._path)
        self._count()
        return {}

    def on_construct(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Construct `ModelNew` under the reference's seed."""
        arguments = pickle.loads(base64.b64decode(request["arguments"]))  # written by the judge
        arguments = [a.to(self._device) if isinstance(a, torch.Tensor) else a for a in arguments]
        seed_process(request["seed"])
        weights = perturbed(request["seed"], request["gain"]) if request["perturbed"] else nullcontext()
        with torch.no_grad(), self._models(), weights:
            make = self._module.ModelNew  # type: ignore[union-attr]
            model = sparingly(make, arguments, request["seed"]) if self._is_twin else make(*arguments)
            self._model = cast_model(model.to(self._device), request["precision"], not self._guarded)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # of what weights were drawn in
        self._count()
        seed_process(int.from_bytes(os.urandom(7), "big"))
        return {}

    def on_adopt(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over the reference's state."""
        slots = {name: Slot.from_json(slot) for name, slot in request["state"].items()}
        return {"state": self._adopt_state(slots)}

    def _models(self) -> AbstractContextManager[None]:
        """A task's own code finds its models as it does in the judge; a submission's may not ask for any."""
        return (
            nullcontext() if self._guarded else random_weights(Path(self._path).read_text("utf-8"), self._device)
        )

    def _adopt_state(self, slots: dict[str, Slot]) -> list[str]:
        own = dict(self._model.state_dict(keep_vars=False))
        problems = []
        with torch.no_grad():
            for (name, slot), value in zip(slots.items(), load(list(slots.values()), self._mapped()), strict=True):
                mine = own.get(name)
                if not isinstance(mine, torch.Tensor):
                    problems.append(f"no {name} of shape {list(slot.shape)}")
                elif tuple(mine.shape) != slot.shape:
                    problems.append(f"{name} has shape {list(mine.shape)}, the reference's {list(slot.shape)}")
                else:
                    mine.copy_(value)
        return problems[:20]

    def on_trial(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        inputs = self._inputs(request["inputs"])
        self._poison(request["outputs"])
        with self._unchanged():
            result = self._forward(inputs)
        self._deliver(request["outputs"], result, request["keep"])
        self._count()
        return {}

    def on_time(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        sets = [self._inputs(entry["inputs"]) for entry in request["sets"]]
        slots = [entry["outputs"] for entry in request["sets"]]
        keep = request["keep"]
        how = request["how"]
        recorder = Recorder(self._device, how == "profiled") if how in RECORDED else None
        call = partial(self._washed, recorder) if recorder else {"timed": self._forward, "bare": self._bare}[how]
        with self._unchanged(), recorder or nullcontext():
            laps = self._stopwatch.laps(
                lambda index: call(sets[index]),
                lambda index, result: self._deliver(slots[index], result) if keep else None,
                range(len(sets)),
                request["flush"],
                request["hold"],
            )
        self._count(rarely=recorder is None)
        reply: dict[str, Any] = {"laps": laps.device, "host": laps.host}
        if recorder is not None:
            reply["record"] = self._told(recorder, len(sets))
        return reply

    def _washed(self, recorder: Recorder, inputs: list[Any]) -> Any:
        self._stopwatch.wash()
        with recorder.call():
            return self._forward(inputs)

    def _bare(self, inputs: list[Any]) -> Any:
        """Without the guard, which the host's time to launch is told without."""
        return self._model(*inputs)

    def _told(self, recorder: Recorder, calls: int) -> dict[str, Any]:
        """The record, with what is known of where each kernel comes from."""
        modules = self._census.own if self._census else []
        generated = self._runtime.generated if self._runtime else None
        origins = Origins(recorder.names(), modules, Path(self._path).read_text("utf-8"), generated)
        return recorder.report(calls, origins.of, origins.spills)

    def on_gate(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        words = Words.open(fds.pop(0))
        words.register()
        self._words.append(words)  # earlier ones stay known to the device, and so have to stay mapped
        return {}

    def on_queue(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Queue calls on the device behind the judge's gate; nothing is waited for (see `gate`)."""
        words = self._words[-1]
        stream = torch.cuda.current_stream(self._device)
        driver.wait_for(stream, words.gate_address, request["value"])
        with self._unchanged():
            for entry in request["sets"]:
                self._deliver(entry["outputs"], self._forward(self._inputs(entry["inputs"])))
        everything = torch.cuda.Event()
        everything.record()
        driver.join(everything, self._device)
        driver.write(stream, words.done_address, request["value"])
        return {}

    def on_trim(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        torch.cuda.empty_cache()
        return {}

    def on_drain(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The device is done with what was queued, as it is at the end of any other request."""
        return {}

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Calls of `forward` inside leave the process's settings and threads as they are."""
        with torch.no_grad(), self._census.unchanged() if self._census else nullcontext():
            yield

    def _count(self, rarely: bool = False) -> None:
        if self._census:
            self._census.modules(rarely)

    def _forward(self, inputs: list[Any]) -> Any:
        with self._watch:
            return self._model(*inputs)

    def _inputs(self, description: dict[str, Any]) -> list[Any]:
        slots = [Slot.from_json(slot) for slot in description["slots"]]
        arguments = unflatten(description["skeleton"], load(slots, self._mapped()))
        return list(arguments)

    def _poison(self, description: dict[str, Any]) -> None:
        """Leave NaN (or extreme integers) in freed memory of the outputs' size: what was never written shows."""
        blocks = []
        for slot in (Slot.from_json(slot) for slot in description["slots"]):
            dtype = slot.torch_dtype
            value: float = float("nan") if dtype.is_floating_point or dtype.is_complex else 113
            blocks.append(torch.full(slot.shape, value, dtype=dtype, device=self._device))
        del blocks

    def _deliver(self, description: dict[str, Any], result: Any, shared: bool = True) -> None:
        """Check the result's form and copy it into the judge's slots, or into memory of this process alone."""
        slots = [Slot.from_json(slot) for slot in description["slots"]]
        try:
            skeleton, tensors = flatten(result)
        except TypeError as error:
            raise OutputError(f"forward() returned something else than tensors: {error}") from None
        if _form(skeleton) != _form(description["skeleton"]):
            raise OutputError(f"forward() must return {_form(description['skeleton'])}, got {_form(skeleton)}")
        for index, (tensor, slot, target) in enumerate(
            zip(tensors, slots, load(slots, self._mapped()), strict=True)
        ):
            _check_tensor(tensor, slot, self._device, index if len(slots) > 1 else None)
            torch.Tensor.copy_(target if shared else torch.empty_like(target), tensor)

    def _mapped(self) -> Region:
        assert self._region is not None
        return self._region

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _form(skeleton: Any) -> str:
    (kind, content), *_ = skeleton.items()
    if kind in ("list", "tuple"):
        return f"a sequence of {len(content)} ({', '.join(_form(item) for item in content[:8])})"
    if kind == "dict":
        return "a dict with the keys " + ", ".join(sorted(content)[:8])
    return "a tensor" if kind == "tensor" else f"the plain value {str(content)[:40]}"


def _check_tensor(tensor: torch.Tensor, slot: Slot, device: torch.device, index: int | None) -> None:
    which = "the output" if index is None else f"output {index}"
    if type(tensor) is not torch.Tensor or getattr(tensor, "__dict__", None):
        raise OutputError(f"{which} must be a plain torch.Tensor, got {type(tensor).__name__}")
    if tuple(tensor.shape) != slot.shape:
        raise OutputError(f"{which} has shape {list(tensor.shape)}, expected {list(slot.shape)}")
    if dtype_name(tensor.dtype) != slot.dtype:
        raise OutputError(f"{which} has dtype {dtype_name(tensor.dtype)}, expected {slot.dtype}")
    if tensor.device.type != device.type:
        raise OutputError(f"{which} is on {tensor.device.type}, expected {device.type}")
    if tensor.layout is not torch.strided:
        raise OutputError(f"{which} has layout {tensor.layout}, expected a dense tensor")


def load_submission(path: str) -> ModuleType:
    """Import the submission under the name `submission`."""
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "ModelNew"):
        raise NameError("the submission does not define ModelNew")
    return module


def build(peer: Peer, spec: dict[str, Any]) -> None:
    """A build child's life: import without a device, and say how it went."""
    os.nice(BUILD_NICENESS)
    candidate = Candidate(peer, torch.device("cpu"), spec)
    peer.send({"hello": True})
    reply = candidate._attempt(candidate.on_import, {}, [])
    peer.send(reply)


def main(link: int, spec: dict[str, Any], parent: int) -> None:
    """Entry after the fork. `spec`: role ("build" | "run"), scratch, source, device, guarded, plan,
    environment, runtime (see `languages`), twin (whether it may be told to draw another context).
    """
    confine(spec["scratch"], [link], parent, Plan.parse(spec["plan"]))
    os.environ.update(spec["environment"])
    peer = Peer(socket.socket(fileno=link), TRUSTED_CAP)
    if spec["role"] == "build":
        build(peer, spec)
        return
    device = torch.device("cuda", 0) if spec["device"] == "cuda" else torch.device("cpu")
    if device.type == "cuda" and not spec["twin"]:
        torch.cuda.init()
        torch.zeros(1, device=device)
    draws.install(device)
    ready = Candidate(peer, device, spec)
    peer.send({"hello": True})
    ready.serve()
