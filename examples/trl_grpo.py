"""GRPO with TRL: the model writes kernels in turns, reads what to fix, and is paid for its best one.

    pip install 'openenv-kernel_env[trl]'
    kernel-env serve
    python examples/trl_grpo.py --model Qwen/Qwen3-8B --steps 200
    python examples/trl_grpo.py --tiny --steps 2

TRL makes a `KernelEpisode` for each rollout of a batch (`environment_factory`), offers `submit` to the model as a
tool, and asks `get_reward` at the end. TRL 1.16 calls the tools of one rollout after another's, so that one device
is busy at a time; `trl_reward.py` has single turns judged side by side. `--tiny` trains a model made on the spot,
on the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from functools import partial
from typing import Any

from kernel_env import KernelAction, KernelEnv, KernelObservation


class KernelEpisode:
    """One episode. The connection opens with the first submission and closes with the reward."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._turn = asyncio.Lock()  # two calls in one answer are two turns, one after the other
        self._env: KernelEnv | None = None
        self._last: KernelObservation | None = None
        self._unanswered = False
        self._task_id = ""

    def reset(self, task_id: str, **_: object) -> None:
        """The columns of a row of the data set; the problem is the row's prompt."""
        self._env, self._last, self._unanswered, self._task_id = None, None, False, task_id

    async def submit(self, code: str) -> str:
        """
        Judge a kernel.

        Args:
            code: The whole source text that defines ModelNew.

        Returns:
            The verdict: what is wrong, or how fast the kernel is.
        """
        async with self._turn:
            self._unanswered = True
            if self._env is None:
                self._env = KernelEnv(base_url=self._url)
                self._last = (await self._env.reset(task_id=self._task_id)).observation
            if self._last is None or not self._last.done:
                self._last = (await self._env.step(KernelAction(code=code))).observation
            self._unanswered = self._last.infrastructure_fault
            return self._last.feedback

    async def get_reward(self) -> float | None:
        """The best submission's. None, which TRL leaves out of the group, where the last one was not judged:
        TRL tells an exception of `submit` to the model and goes on."""
        if self._env is not None:
            await self._env.close()
        if self._unanswered:
            return None
        return 0.0 if self._last is None else self._last.best_reward or 0.0


async def problems(url: str, task_ids: list[str]) -> list[dict[str, Any]]:
    """A row for each task: its problem as the prompt, and its id, which TRL hands to `reset`."""
    async with KernelEnv(base_url=url) as env:
        texts = [(await env.reset(task_id=task_id)).observation.problem for task_id in task_ids]
    prompts = [[{"role": "user", "content": f"{text}\nCall submit with your kernel."}] for text in texts]
    return [{"prompt": prompt, "task_id": task_id} for prompt, task_id in zip(prompts, task_ids, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--tasks", default="level1/e02_SiLU", help="ids, by commas")
    parser.add_argument("--model", default="Qwen/Qwen3-8B")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument("--tokens", type=int, default=16384, help="of all turns of a rollout")
    parser.add_argument("--out", default="outputs/grpo")
    options = parser.parse_args()

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from transformers import set_seed
    from trl import GRPOConfig, GRPOTrainer

    set_seed(0)
    model: dict[str, Any] = {"model": options.model}
    settings: dict[str, Any] = {}
    if options.tiny:
        from tiny_model import TINY, kernels, tiny_model

        calls = [json.dumps({"name": "submit", "arguments": {"code": kernel}}) for kernel in kernels()]
        answers = [f"<tool_call>\n{call}\n</tool_call><|im_end|>" for call in calls]
        model["model"], model["processing_class"] = tiny_model(answers)
        settings = TINY
    rows = asyncio.run(problems(options.url, options.tasks.split(",")))
    trainer = GRPOTrainer(
        args=GRPOConfig(
            output_dir=options.out,
            max_steps=options.steps,
            per_device_train_batch_size=options.generations,
            num_generations=options.generations,
            max_tool_calling_iterations=options.turns,
            max_completion_length=options.tokens,
            learning_rate=options.learning_rate,
            logging_steps=1,
            report_to=[],
            **settings,
        ),
        train_dataset=Dataset.from_list(rows),
        environment_factory=partial(KernelEpisode, options.url),
        **model,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print(f"step {entry['step']}  reward {entry['reward']:.3f}  grad_norm {entry['grad_norm']:.3g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
