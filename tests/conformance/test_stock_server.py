"""Our client on a server of openenv's own making: it plays, and it refuses a session that was not reset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_env import EpisodeLostError, KernelAction, KernelEnv


@pytest.fixture(scope="module")
def stock(launch: Callable[[list[str], dict[str, str]], str]) -> str:
    return launch([str(Path(__file__).with_name("stock_server.py")), "{port}"], {})


def test_an_episode(stock: str) -> None:
    with KernelEnv(base_url=stock).sync() as env:
        assert env.reset(seed=1, episode_id="e", task_id="t").observation.task_id == "t"
        result = env.step(KernelAction(code="12345"))
        assert (result.observation.feedback, result.reward, result.observation.reward) == ("12345", 5.0, 5.0)
        state = env.state()
        assert (state.episode_id, state.step_count) == ("e", 1)


async def test_a_closed_connection_loses_the_episode_and_says_so(stock: str) -> None:
    async with KernelEnv(base_url=stock) as env:
        await env.reset(task_id="t")
        await env._ws.close()
        with pytest.raises(EpisodeLostError):
            await env.step(KernelAction(code="x"))
        await env.reset(task_id="u")
        assert (await env.step(KernelAction(code="x"))).observation.turn == 1
