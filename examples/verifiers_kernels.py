"""kernel_env as an environment of verifiers, whose environments prime-rl trains on.

    pip install 'openenv-kernel_env[verifiers]'
    kernel-env serve
    OPENAI_API_KEY=... python examples/verifiers_kernels.py --model NAME --endpoint http://localhost:9000/v1

A task is a task of the server, an episode of verifiers is one of ours: the problem is the first message, the
verdict the next one, until the episode is done. The reward is that of the best submission. A fault of the
environment is an error of the episode, which verifiers repeats or leaves out, and never a bad sample.

verifiers' own command line and prime-rl find the environment by this module's name, with the file on PYTHONPATH:
`eval verifiers_kernels --env.taskset.url http://localhost:8000 ...`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import httpx
import verifiers.v1 as vf
from pydantic import Field

from kernel_env import KernelAction, KernelEnv

__all__ = ["KernelConfig", "KernelEnvironment", "KernelTasks"]


class KernelData(vf.TaskData):
    url: str
    language: str


class KernelTask(vf.Task[KernelData]):
    pass


class KernelConfig(vf.TasksetConfig):
    """`tasks` names ids; without any, all tasks of the split are taken."""

    url: str = "http://localhost:8000"
    split: str = "train"
    language: str = "triton"
    tasks: list[str] = Field(default_factory=list)


class KernelTasks(vf.Taskset[KernelTask, KernelConfig]):
    def load(self) -> Iterator[KernelTask]:
        config = self.config
        for task_id in config.tasks or ids(config.url, config.split):
            data = KernelData(name=task_id, prompt=None, url=config.url, language=config.language)
            yield KernelTask(data, config.task)


def ids(url: str, split: str) -> list[str]:
    """The ids of a split, by openenv's task routes."""
    reply = httpx.post(f"{url}/kernel_env/tasks", json={"split": split}, timeout=30.0)
    tasks = reply.raise_for_status().json()["tasks"]
    return [task["task_id"] for task in tasks if task["available"]]


class KernelEnvironmentConfig(vf.EnvConfig):
    writer: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class KernelEnvironment(vf.Env[KernelEnvironmentConfig]):
    """One agent, the writer, in a conversation with the evaluator."""

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        async with KernelEnv(base_url=task.data.url) as env:
            seen = (await env.reset(task_id=task.data.name, language=task.data.language)).observation
            async with agents.writer.interaction(task) as interaction:
                segment = await interaction.turn(seen.problem)
                while not segment.terminated:
                    seen = (await env.step(KernelAction(code=segment.last_reply))).observation
                    if seen.infrastructure_fault:
                        raise RuntimeError(f"not judged: {seen.feedback}")
                    if seen.done:
                        break
                    segment = await interaction.turn(seen.feedback)
        interaction.trace.record_reward("kernel_env", seen.best_reward or 0.0)
        interaction.trace.record_metric("speedup", seen.best_speedup or 0.0)
        interaction.trace.record_metric("turns", float(seen.turn))


async def rollouts(options: argparse.Namespace) -> list[vf.Episode]:
    """`--n` episodes of each task, all at once."""
    taskset = {"id": "verifiers_kernels", "url": options.url, "split": options.split, "tasks": options.tasks or []}
    context = vf.ModelContext(
        model=options.model,
        client=vf.EvalClientConfig(base_url=options.endpoint, api_key_var="OPENAI_API_KEY"),
    )
    environment = vf.load_environment(vf.resolve_env_config({"taskset": taskset}))
    tasks = [task for task in environment.taskset for _ in range(options.n)]
    async with environment.serving():
        return await asyncio.gather(*(environment.run_episode(task, context) for task in tasks))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument("--endpoint", default="http://localhost:9000/v1")
    parser.add_argument("--split", default="train")
    parser.add_argument("--tasks", nargs="*", help="ids; all of the split without any")
    parser.add_argument("--n", type=int, default=4, help="rollouts of each task")
    options = parser.parse_args()

    failed = 0
    for episode in asyncio.run(rollouts(options)):
        name = episode.task.data.name
        if not episode.ok:
            failed += 1
            print(f"{name}  error: {episode.last_error.message if episode.last_error else 'unknown'}")
        for trace in episode.traces if episode.ok else ():
            turns = int(trace.metrics["turns"])
            print(f"{name}  reward {trace.reward:.3f}  turns {turns}  messages {len(trace.messages)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
