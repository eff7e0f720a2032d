"""GRPO with TRL in single turns: a reward function that judges a whole batch side by side.

    pip install 'openenv-kernel_env[trl]'
    kernel-env serve
    python examples/trl_reward.py --model Qwen/Qwen3-8B --steps 200
    python examples/trl_reward.py --tiny --steps 2

Each completion gets an episode of its own, and as many are judged at once as the server has devices. `rewards`
knows nothing of the trainer: what takes a function of completions, as Unsloth does, takes it as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from kernel_env import EpisodeLostError, KernelAction, KernelEnv, StepTimeoutError


async def rewards(
    url: str, completions: Sequence[Sequence[dict[str, str]]], task_id: Sequence[str], **_: object
) -> list[float | None]:
    """One for each completion; None for a fault of the environment, which TRL leaves out of the group."""

    async def judge(task: str, answer: str) -> float | None:
        async with KernelEnv(base_url=url) as env:
            await env.reset(task_id=task)
            try:
                observation = (await env.step(KernelAction(code=answer))).observation
            except (EpisodeLostError, StepTimeoutError):
                return None
            return None if observation.infrastructure_fault else observation.reward

    answers = [completion[-1]["content"] for completion in completions]
    return await asyncio.gather(*map(judge, task_id, answers))


async def problems(url: str, task_ids: list[str]) -> list[dict[str, Any]]:
    """A row for each task: its problem as the prompt, and its id, which TRL hands to the reward function."""
    async with KernelEnv(base_url=url) as env:
        texts = [(await env.reset(task_id=task_id)).observation.problem for task_id in task_ids]
    prompts = [[{"role": "user", "content": text}] for text in texts]
    return [{"prompt": prompt, "task_id": task} for prompt, task in zip(prompts, task_ids, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--tasks", default="level1/e02_SiLU", help="ids, by commas")
    parser.add_argument("--model", default="Qwen/Qwen3-8B")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--out", default="outputs/grpo")
    options = parser.parse_args()

    from datasets import Dataset
    from transformers import set_seed
    from trl import GRPOConfig, GRPOTrainer

    set_seed(0)
    model: dict[str, Any] = {"model": options.model}
    settings: dict[str, Any] = {}
    if options.tiny:
        from tiny_model import TINY, kernels, tiny_model

        model["model"], model["processing_class"] = tiny_model(kernels())
        settings = TINY
    trainer = GRPOTrainer(
        args=GRPOConfig(
            output_dir=options.out,
            max_steps=options.steps,
            per_device_train_batch_size=options.generations,
            num_generations=options.generations,
            max_completion_length=options.tokens,
            learning_rate=options.learning_rate,
            logging_steps=1,
            report_to=[],
            **settings,
        ),
        train_dataset=Dataset.from_list(asyncio.run(problems(options.url, options.tasks.split(",")))),
        reward_funcs=partial(rewards, options.url),
        **model,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print(f"step {entry['step']}  reward {entry['reward']:.3f}  grad_norm {entry['grad_norm']:.3g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
