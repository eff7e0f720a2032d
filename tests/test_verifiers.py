"""The environment of verifiers on a real server: whole rollouts, in turns, against a scripted model."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from .conftest import Launch
from .endpoint import Body, serving
from .examples import run_example
from .serving import scripted

pytestmark = pytest.mark.skipif(find_spec("verifiers") is None, reason="needs the extra verifiers")

TASKS = "level1/e01_RowSoftmax", "level1/e02_SiLU"


def better(body: Body, number: int) -> str:
    """No code at first, then code of growing speed; for the second task a fault of the environment."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn == 0:
        return "I would rather not."
    text = str(body["messages"])
    return f"```python\n{scripted(fail=True) if TASKS[1] in text else scripted(speedup=2.0**turn)}\n```"


def test_rollouts(launch: Launch, tmp_path: Path) -> None:
    server = launch(scripted=True, KERNEL_ENV_MAX_TURNS="3")
    with serving(better) as endpoint:
        done = run_example(
            "verifiers_kernels.py",
            *("--url", server.url, "--endpoint", endpoint.url, "--model", "scripted"),
            *("--n", "2", "--tasks", *TASKS),
            cwd=tmp_path,
            OPENAI_API_KEY="none",
        )
    assert done.returncode == 1, done.stderr[-3000:]
    rewards = re.findall(rf"^{TASKS[0]}  reward (\S+)  turns 3  messages 6$", done.stdout, re.MULTILINE)
    assert rewards == ["2.300", "2.300"], done.stdout + done.stderr[-3000:]
    assert len(re.findall(rf"^{TASKS[1]}  error: .*not judged", done.stdout, re.MULTILINE)) == 2, done.stdout
    stages = [event["stage"] for event in server.events("step") if event["task_id"] == TASKS[0]]
    assert sorted(stages) == ["compile"] * 2 + ["passed"] * 4
