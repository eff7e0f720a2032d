"""A task's arguments without their contents: shapes, strides and dtypes, for whoever may not know more.

Runs a task's `get_init_inputs()` and `get_inputs()` on fake tensors of its device, in a confined child of the
zygote, and tells what they gave. Nothing is computed or allocated, and no device is needed. A task whose
generators need real data has no sketch: that is no error, and for the judge to judge.
"""

from __future__ import annotations

import base64
import os
import pickle
import socket
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import trace
from .casting import cast
from .frames import TRUSTED_CAP, Peer
from .layers import Plan
from .layout import Slot, flatten, place, unflatten
from .reference import describe, execute, seed_all
from .sandbox import confine

CAP = 256 << 10


class Fakes(FakeTensorMode):
    """Tensors without contents, on any device."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under it, and to load torch's compiler takes 1.5 s."""
        return False

    @property
    def avoid_device_init(self) -> bool:
        """Always: to ask whether there is a device starts the driver, which the zygote must not."""
        return True


def sketch(task_id: str, source: str, device: torch.device, precision: str = "fp32") -> dict[str, Any]:
    """`arguments` (pickled, base64) and `inputs` (as `describe` gives them), or nothing."""
    seed_all(0)
    try:
        with Fakes(), torch.no_grad(), device:
            module = execute(task_id, source)
            arguments = cast(list(module.get_init_inputs()), precision)
            skeleton, tensors = flatten(cast(list(module.get_inputs()), precision))
            slots, _ = place(tensors)
        pickled = base64.b64encode(pickle.dumps(arguments)).decode()
    except Exception:  # a task file may raise anything
        return {}
    return {"arguments": pickled, "inputs": describe(skeleton, slots)} if len(pickled) < CAP else {}


def fake_inputs(inputs: dict[str, Any], device: torch.device) -> list[Any]:
    """Tensors of a sketch's shapes; to be called under `Fakes`."""
    slots = [Slot.from_json(slot) for slot in inputs["slots"]]
    tensors = [
        torch.empty_strided(slot.shape, slot.stride, dtype=slot.torch_dtype, device=device) for slot in slots
    ]
    return list(unflatten(inputs["skeleton"], tensors))


def main(link: int, spec: dict[str, Any], parent: int) -> None:
    """Entry after the fork. `spec`: scratch, source (the task's text), plan, environment, device, precision."""
    confine(spec["scratch"], [link], parent, Plan.parse(spec["plan"]))
    os.environ.update(spec["environment"])
    source = Path(spec["source"], trace.NAME).read_text("utf-8")
    found = sketch("sketched", source, torch.device(spec["device"]), spec["precision"])
    Peer(socket.socket(fileno=link), TRUSTED_CAP).send(found)
