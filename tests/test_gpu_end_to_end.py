"""A whole episode on a CUDA device, with Triton and with CUDA, through the real server and client."""

from __future__ import annotations

import pytest

from kernel_env import KernelAction, KernelEnv
from kernel_env.server.local import visible_gpus

from .conftest import Launch
from .submissions import FOLDER, RIGHT, TASK

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
]

LARGE = TASK.replace("32, 64", "4096, 4096")
RELU_CUDA = (FOLDER / "relu_cuda.py").read_text()


@pytest.fixture(scope="module")
def url(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "softmax.py").write_text(LARGE)
    (folder / "relu.py").write_text(LARGE.replace("torch.softmax(x, dim=1)", "torch.relu(x)"))
    return launch(KERNEL_ENV_EVALUATOR="gpu", KERNEL_ENV_TASKS=str(folder)).url


@pytest.mark.parametrize(
    ("task_id", "language", "right", "broken"),
    [
        ("user/softmax", "triton", RIGHT, "tl.sum(value, axis=0)"),
        ("user/relu", "cuda", RELU_CUDA, "fmaxf(v.x, 0.f)"),
    ],
    ids=["triton", "cuda"],
)
def test_a_wrong_kernel_then_a_right_one(url: str, task_id: str, language: str, right: str, broken: str) -> None:
    with KernelEnv(base_url=url).sync() as env:
        first = env.reset(task_id=task_id, language=language).observation
        assert first.metadata["device"]["kind"] == "cuda"
        wrong = env.step(KernelAction(code=right.replace(broken, f"2 * {broken}")))
        assert wrong.observation.stage == "correctness", wrong.observation.feedback
        assert wrong.reward == 0.0
        result = env.step(KernelAction(code=right))
    observation = result.observation
    assert observation.stage == "passed", observation.feedback
    assert observation.speedup is not None
    assert observation.speedup_low is not None
    assert observation.speedup_low <= observation.speedup
    assert observation.t_min_ms is not None
    assert observation.roofline_frac is not None
    assert 0.1 < observation.roofline_frac < 1.2
    assert result.reward is not None
    assert 0.1 <= result.reward <= 3.3
    assert observation.turn == 2
