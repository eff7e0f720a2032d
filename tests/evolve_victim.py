"""Runs that are killed: `python -m tests.evolve_victim URL FOLDER SEED RUNS` prints the trees as JSON.

Imports once and forks a process for every attempt. The first run is left alone; each further one is killed at a
random point and resumed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import openai.resources.chat  # noqa: F401  # once, not in every process

from kernel_env.evolve import EvolveConfig, KernelEvolve, LLMConfig

from .evolving import SECRET, TASK, Landscape, tree_of

CONFIG = {"budget": {"evaluations": 12}, "parallel": {"llm": 3, "evaluations": 2}, "search": {"remeasure": 4}}


def main() -> None:
    url, folder, seed, runs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    began = time.monotonic()
    attempt(url, folder / "whole", None)
    usual_s = time.monotonic() - began
    killed = number = 0
    while killed < runs:
        killed += attempt(url, folder / str(number), rng.uniform(0.0, 0.7 * usual_s))
        attempt(url, folder / str(number), None)
        number += 1
    trees = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/tree.json")}
    sys.stdout.write(json.dumps({"killed": killed, "trees": trees}))


def attempt(url: str, run: Path, after_s: float | None) -> bool:
    """Whether it was killed before its end."""
    if (run / "tree.json").exists():
        return False
    pid = os.fork()
    if pid == 0:
        child(url, run)
        os._exit(0)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.waitstatus_to_exitcode(status) == 0, status
    return killed


def child(url: str, run: Path) -> None:
    journal = run / "run.jsonl"
    # A run that was killed before its first line was whole is begun anew.
    resume = journal.is_file() and b"\n" in journal.read_bytes()
    if journal.is_file() and not resume:
        journal.unlink()
    landscape = Landscape()
    landscape.delay_s = 0.005
    result = KernelEvolve(
        TASK,
        LLMConfig(model_name="scripted", api_key=SECRET, base_url=url),
        landscape,
        config=EvolveConfig.parse(CONFIG),
        run_dir=run,
        resume=resume,
    ).evolve()
    part = run / "tree.part"
    part.write_text(json.dumps(tree_of(result)))
    part.rename(run / "tree.json")


if __name__ == "__main__":
    main()
