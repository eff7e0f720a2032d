"""One call of a submission for Nsight Compute to count: a program of its own, started under `ncu`.

`python -m kernel_env.server.counted SPEC`, a JSON file with task_id, source, code (a path), precision. It runs the
submission as any program of the user's: no sandbox, no guard, no judge, since ncu starts it and reads its memory.
Nothing of it reaches a verdict.
"""

from __future__ import annotations

import copy
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import torch

from .candidate import load_submission
from .casting import cast_model
from .reference import Reference

WARM = 2


def main() -> None:
    spec: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    device = torch.device("cuda", 0)
    reference = Reference(
        spec["task_id"], spec["source"], device, secrets.randbits(62), precision=spec["precision"]
    )
    model = _model(reference, spec["code"])
    inputs = reference.inputs(secrets.randbits(62))
    with torch.no_grad():
        for _ in range(WARM):
            model(*inputs)
        torch.cuda.synchronize(device)
        torch.cuda.profiler.start()
        model(*inputs)
        torch.cuda.synchronize(device)
        torch.cuda.profiler.stop()


def _model(reference: Reference, path: str) -> Any:
    """`ModelNew` with the reference's weights."""
    module = load_submission(path)
    arguments = [a.to(reference.device) if isinstance(a, torch.Tensor) else a for a in reference.arguments]
    torch.manual_seed(reference.seed)
    with torch.no_grad():
        made = module.ModelNew(*copy.deepcopy(arguments)).to(reference.device)
        model = cast_model(made, reference.precision)
        theirs = reference.state()
        for name, value in model.state_dict().items():
            if name in theirs and theirs[name].shape == value.shape:
                value.copy_(theirs[name])
    return model


if __name__ == "__main__":
    main()
