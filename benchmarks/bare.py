"""One submission by itself, timed the usual way: `python -m benchmarks.bare FOLDER cuda|cpu`.

`FOLDER` holds `task.py` and `submission.py`. Nothing of the environment takes part: the submission is imported,
`ModelNew` constructed, the inputs drawn on the device, and `forward` given to `triton.testing.do_bench` with its
own flush; on a CPU it is the monotonic clock round each call. Prints the median as JSON. The warm-up is longer
than do_bench's own 25 ms, in which clocks have not ramped.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

WARMUP_MS = 300
REPETITIONS_MS = 500
HOST_CALLS = 50
SEED = 20


def main() -> None:
    folder, device = Path(sys.argv[1]), torch.device(sys.argv[2])
    task, submission = _import(folder / "task.py"), _import(folder / "submission.py")
    torch.manual_seed(SEED)
    with torch.no_grad(), device:
        model = submission.ModelNew(*task.get_init_inputs()).to(device)
        inputs = task.get_inputs()
        runtime_ms = _median_ms(lambda: model(*inputs), device)
    print(json.dumps({"runtime_ms": runtime_ms}))


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _median_ms(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        from triton.testing import do_bench

        return float(do_bench(call, warmup=WARMUP_MS, rep=REPETITIONS_MS, return_mode="median"))
    laps = []
    for _ in range(HOST_CALLS):
        begun = time.perf_counter_ns()
        call()
        laps.append((time.perf_counter_ns() - begun) / 1e6)
    return statistics.median(laps)


if __name__ == "__main__":
    main()
