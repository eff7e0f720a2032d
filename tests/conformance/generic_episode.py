"""Plays one episode with openenv's generic client, whichever release is imported; prints what it saw.

    python generic_episode.py URL FILE

`FILE` holds the submission. Run in a process of its own, so that another release can come first on the path.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import openenv
from openenv.core.generic_client import GenericEnvClient


def main() -> None:
    url, file = sys.argv[1:]
    with GenericEnvClient(base_url=url).sync() as env:
        first = env.reset(seed=0, task_id="level1/e01_RowSoftmax")
        result = env.step({"code": Path(file).read_text()})
        state = env.state()
    seen = {
        "openenv": openenv.__file__,
        "task_id": first.observation["task_id"],
        "problem": len(first.observation["problem"]),
        "stage": result.observation["stage"],
        "mock": result.observation["mock"],
        "reward": result.reward,
        "done": result.done,
        "step_count": state["step_count"],
    }
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
