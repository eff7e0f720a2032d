"""One submission by KernelBench's own evaluator.

`python -m benchmarks.upstream_alone FOLDER CHECKOUT triton|cuda`: `FOLDER` holds `task.py` and `submission.py`;
`CHECKOUT` is a checkout of KernelBench, whose `src/` is loaded here and nowhere else. Prints as JSON what it found
and the seconds that its one call took, imports not included. Packages that KernelBench asks language models with
are not needed for that: where one is missing, an empty one stands in.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

CORRECT_TRIALS, PERF_TRIALS = 5, 100
NOT_NEEDED = ("dotenv", "litellm", "openai", "requests", "tqdm")


class Absent(ModuleType):
    """Whatever is asked of it is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def main() -> None:
    folder, checkout, backend = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    for name in NOT_NEEDED:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    sys.path.insert(0, str(checkout / "src"))
    import torch
    from kernelbench.eval import eval_kernel_against_ref

    began = time.monotonic()
    result = eval_kernel_against_ref(
        (folder / "task.py").read_text(),
        (folder / "submission.py").read_text(),
        measure_performance=True,
        num_correct_trials=CORRECT_TRIALS,
        num_perf_trials=PERF_TRIALS,
        build_dir=str(folder / "build"),
        device=torch.device("cuda", 0),
        backend=backend,
    )
    seconds = time.monotonic() - began
    told = {"compiled": result.compiled, "correct": result.correctness, "runtime_ms": result.runtime}
    print("\n" + json.dumps({**told, "seconds": seconds}))


if __name__ == "__main__":
    main()
