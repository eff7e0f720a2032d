"""kernel_env as an environment of SkyRL (skyrl-gym): a text environment that SkyRL's generator plays in turns.

    pip install 'openenv-kernel_env[skyrl]'
    kernel-env serve
    python examples/skyrl_kernels.py --answers FOLDER

For training, put this file on PYTHONPATH, call `register()` in the entry point that SkyRL starts on each worker,
set `environment.env_class=kernel_env`, and give each row of the data set `prompt` and, in `extra_info`, `task_id`.
Run by itself it plays one episode with the files of a folder as the answers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from kernel_env import KernelAction, KernelEnv

URL = "http://localhost:8000"


class KernelTextEnv(BaseTextEnv):
    """One episode. The reward of a step is what it adds to the episode's best: their sum is the best reward."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        config, extras = dict(env_config or {}), extras or {}
        self._task_id = (extras.get("extra_info") or extras).get("task_id")
        self._env = KernelEnv(base_url=config.get("url", URL)).sync()
        self._best = 0.0
        self._fault = False

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """The problem, after what the data set's prompt says."""
        first = self._env.reset(task_id=self._task_id).observation
        self.max_turns = first.max_turns
        return [*prompt, {"role": "user", "content": first.problem}], {"task_id": first.task_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        seen = self._env.step(KernelAction(code=action)).observation
        self.turns = seen.turn
        self._fault = seen.infrastructure_fault
        gained = max((seen.best_reward or 0.0) - self._best, 0.0)
        self._best += gained
        return BaseTextEnvStepOutput(
            observations=[] if seen.done else [{"role": "user", "content": seen.feedback}],
            reward=gained,
            done=seen.done or seen.infrastructure_fault,
            metadata={"stage": seen.stage, "speedup": seen.speedup, "infrastructure_fault": self._fault},
        )

    def get_metrics(self) -> dict[str, Any]:
        return {"turns": self.turns, "best_reward": self._best, "infrastructure_fault": float(self._fault)}

    def close(self) -> None:
        self._env.close()


def register() -> None:
    """As `kernel_env`; once a process."""
    skyrl_gym.register(id="kernel_env", entry_point="skyrl_kernels:KernelTextEnv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=URL)
    parser.add_argument("--task", default="level1/e01_RowSoftmax")
    parser.add_argument("--answers", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()

    register()
    env = skyrl_gym.make("kernel_env", env_config={"url": options.url}, extras={"task_id": options.task})
    try:
        conversation, _ = env.init([{"role": "system", "content": "You write GPU kernels."}])
        for file in sorted(options.answers.glob("*.py")):
            out = env.step(file.read_text())
            conversation += [{"role": "assistant", "content": file.read_text()}, *out["observations"]]
            print(f"{file.name}  {out['metadata']['stage']:12} reward {out['reward']:.3f}  done {out['done']}")
            if out["done"]:
                break
        print(f"{len(conversation)} messages, best reward {env.get_metrics()['best_reward']:.3f}")
    finally:
        env.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
