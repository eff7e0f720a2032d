"""One episode of a chat model: it writes a kernel, reads the verdict, and writes a better one.

    OPENAI_API_KEY=... python examples/multi_turn.py --model NAME --task level1/e01_RowSoftmax

The model is behind any OpenAI-compatible endpoint (OPENAI_BASE_URL). The conversation is problem, answer,
feedback, answer and so on, with the feedback as the environment gives it; it ends with the episode, or earlier
with a speedup that is enough.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable

from kernel_env import KernelAction, KernelEnv, KernelObservation

Messages = list[dict[str, str]]
Model = Callable[[Messages], Awaitable[str]]


async def play(env: KernelEnv, model: Model, options: argparse.Namespace) -> list[KernelObservation]:
    """The observations of all turns, the last one with the episode's best."""
    observation = (await env.reset(task_id=options.task, language=options.language)).observation
    messages: Messages = [{"role": "user", "content": observation.problem}]
    turns: list[KernelObservation] = []
    while not observation.done and (observation.best_speedup or 0.0) < options.enough:
        answer = await model(messages)
        observation = (await env.step(KernelAction(code=answer))).observation
        turns.append(observation)
        messages += [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": f"{observation.feedback}\n\nWrite the whole kernel again, better."},
        ]
    return turns


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", default="level1/e01_RowSoftmax")
    parser.add_argument("--language", default="triton", choices=("triton", "cuda", "cpp"))
    parser.add_argument("--enough", type=float, default=float("inf"), help="speedup to stop at")
    options = parser.parse_args()

    from openai import AsyncOpenAI

    async with AsyncOpenAI() as client, KernelEnv(base_url=options.url) as env:

        async def model(messages: Messages) -> str:
            reply = await client.chat.completions.create(model=options.model, messages=messages)
            return reply.choices[0].message.content or ""

        turns = await play(env, model, options)
    for seen in turns:
        speed = f"{seen.speedup:.2f}x" if seen.speedup is not None else "-"
        print(f"turn {seen.turn}  {seen.stage:15} speedup {speed:8} reward {seen.reward:.3f}")
    best = turns[-1].best_reward or 0.0
    print(f"best reward {best:.3f}")
    return 0 if best > 0.0 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
