"""Rollouts as an asynchronous trainer wants them: many sessions at once, groups of one task, faults left out.

    python examples/async_rollouts.py --answers FOLDER --sessions 32 --groups 4

Each session is one client with an episode of its own. The server queues what its devices have no room for, so
that `--sessions` may be much larger than the number of GPUs: it hides the model's time, and the devices stay busy.
Answers are drawn from the files of a folder, in place of a model's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_env import EpisodeLostError, KernelAction, KernelEnv, StepTimeoutError

ATTEMPTS = 2


@dataclass(frozen=True)
class Sample:
    """An answer with its reward; None where the environment could not tell."""

    answer: str
    reward: float | None


async def sample(env: KernelEnv, seed: int, answer: str) -> Sample:
    """One episode of one submission; what the environment failed to judge is sent once more."""
    for _ in range(ATTEMPTS):
        try:
            await env.reset(seed=seed)
            seen = (await env.step(KernelAction(code=answer))).observation
        except (EpisodeLostError, StepTimeoutError):
            continue
        if not seen.infrastructure_fault:
            return Sample(answer, seen.reward)
    return Sample(answer, None)


def advantages(group: Sequence[Sample]) -> list[float]:
    """GRPO's, over the samples that were judged. The others get zero, and do not move the mean."""
    judged = [one.reward for one in group if one.reward is not None]
    if len(judged) < 2:
        return [0.0] * len(group)
    mean, spread = statistics.fmean(judged), statistics.stdev(judged)
    return [0.0 if one.reward is None else (one.reward - mean) / (spread + 1e-4) for one in group]


async def rollouts(url: str, sessions: int, groups: int, answers: Sequence[str]) -> list[list[Sample]]:
    """`groups` groups, each of one task, of `sessions / groups` samples; all at once."""
    draw = random.Random(0)

    async def one(env: KernelEnv, seed: int) -> Sample:
        return await sample(env, seed, draw.choice(answers))

    async with KernelEnv(base_url=url) as first:
        clients = [first, *[await first.new_session() for _ in range(sessions - 1)]]
        size = sessions // groups
        found = await asyncio.gather(*(one(env, index // size) for index, env in enumerate(clients)))
    return [found[start : start + size] for start in range(0, len(found), size)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--answers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--groups", type=int, default=4)
    options = parser.parse_args()

    answers = [file.read_text() for file in sorted(options.answers.glob("*.py"))]
    begun = time.monotonic()
    found = asyncio.run(rollouts(options.url, options.sessions, options.groups, answers))
    print(f"{options.sessions} sessions in {time.monotonic() - begun:.1f} s")
    for seed, group in enumerate(found):
        judged = [one.reward for one in group if one.reward is not None]
        mean = statistics.fmean(judged) if judged else 0.0
        largest = max(advantages(group))
        print(f"group {seed}  judged {len(judged)}/{len(group)}  reward {mean:.3f}  best advantage {largest:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
