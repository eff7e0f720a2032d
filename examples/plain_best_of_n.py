"""Best of n, with no training library: n answers to one task, each judged, the best one kept.

    python examples/plain_best_of_n.py --task level1/e01_RowSoftmax --n 8 --model NAME
    python examples/plain_best_of_n.py --task level1/e01_RowSoftmax --answers FOLDER

Answers come from a chat model behind an OpenAI-compatible endpoint (OPENAI_API_KEY, OPENAI_BASE_URL), or from
the files of a folder. Every answer gets an episode of its own, so that the server may evaluate them at once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from kernel_env import KernelAction, KernelEnv, KernelObservation


async def ask(model: str, problem: str) -> str:
    from openai import AsyncOpenAI

    async with AsyncOpenAI() as client:
        reply = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": problem}])
    return reply.choices[0].message.content or ""


async def attempt(options: argparse.Namespace, answer: str | None) -> tuple[str, KernelObservation]:
    """One episode of one submission; a fault of the environment is tried again, not counted as a bad answer."""
    async with KernelEnv(base_url=options.url) as env:
        problem = (await env.reset(task_id=options.task, language=options.language)).observation.problem
        text = await ask(options.model, problem) if answer is None else answer
        observation = (await env.step(KernelAction(code=text))).observation
        if observation.infrastructure_fault:
            observation = (await env.step(KernelAction(code=text))).observation
        return text, observation


async def attempts(
    options: argparse.Namespace, answers: Sequence[str | None]
) -> AsyncIterator[tuple[str, KernelObservation]]:
    """The attempts in the order in which they finish; an answer that is None is asked of the model."""
    for done in asyncio.as_completed([attempt(options, answer) for answer in answers]):
        yield await done


async def best_of(
    options: argparse.Namespace, answers: Sequence[str | None]
) -> tuple[str, KernelObservation] | None:
    best: tuple[str, KernelObservation] | None = None
    async for text, seen in attempts(options, answers):
        speed = f"{seen.speedup:.2f}x" if seen.speedup is not None else "-"
        print(f"{seen.stage:15} reward {seen.reward or 0.0:.3f}  speedup {speed}")
        if seen.correct and (best is None or (seen.reward or 0.0) > (best[1].reward or 0.0)):
            best = text, seen
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--task", default="level1/e01_RowSoftmax")
    parser.add_argument("--language", default="triton", choices=("triton", "cuda", "cpp"))
    parser.add_argument("--n", type=int, default=8)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model")
    source.add_argument("--answers", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("best.py"))
    options = parser.parse_args()

    answers: list[str | None] = [None] * options.n
    if options.answers:
        answers = [file.read_text() for file in sorted(options.answers.glob("*.py"))]
    best = asyncio.run(best_of(options, answers))
    if best is None:
        print("no answer was correct")
        return 1
    options.out.write_text(best[0])
    print(f"best reward {best[1].reward:.3f}, written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
