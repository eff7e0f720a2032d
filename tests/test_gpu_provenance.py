"""Kernels by name on a CUDA device: what libraries launch is told from moves and from a submission's own.

First the names themselves, recorded in processes of their own, as CUPTI slows a process down for good. Then
submissions: those of `tests/exploits` that nothing but the record of kernels catches, and honest ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Rejected
from kernel_env.server.provenance import Record, is_library, is_move, is_own

from .exploits import exploits
from .exploits.trial import judged, pool_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")]
asynchronous = pytest.mark.asyncio(loop_scope="module")

PROGRAM = """
import json, torch
from kernel_env.server.activity import Recorder

device = torch.device("cuda", 0)
x = torch.rand(512, 512, device=device)
y = torch.empty_like(x)
many = torch.rand(1 << 20, device=device)
image, weight = torch.rand(8, 16, 64, 64, device=device), torch.rand(16, 16, 3, 3, device=device)


def run():
    return {calls}


run()
torch.cuda.synchronize()
with Recorder(device) as recorder:
    run()
print(json.dumps(recorder.report(1, lambda name: "")))
"""
COMPUTE = (
    "(x @ x, torch.addmm(x, x, x), torch.mv(x, x[0]), (x.half() @ x.half()), torch.bmm(x[None], x[None]),"
    " torch.softmax(x, 1), x.sum(), x.mean(1), x.exp(), x + x, torch.relu(x), x.cumsum(1), many.sort(),"
    " torch.layer_norm(x, (512,)), torch.conv2d(image, weight), torch.max_pool2d(image, 2), x.argmax(1),"
    " torch.fft.fft(x), torch.nn.functional.gelu(x), torch.where(x > 0.5, x, y))"
)
MOVES = (
    "(torch.zeros_like(x), torch.full_like(x, 2.0), torch.ones_like(x).fill_(3), y.copy_(x), y.copy_(x.t()),"
    " x.t().contiguous(), x.clone(), x.half(), x.double(), x.bfloat16(), x.to(torch.int32), torch.cat([x, x]),"
    " torch.cat([x, x.t()], 1), torch.stack([x, y]), x.repeat(2, 2), torch.nn.functional.pad(x, (1, 2)),"
    " torch.arange(100, device=device), x.flip(0), x.roll(1, 0), x[:, ::2].contiguous(),"
    " x.expand(2, 512, 512).clone())"
)


def recorded(calls: str) -> Record:
    program = PROGRAM.replace("{calls}", calls)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    return Record.model_validate(json.loads(done.stdout.splitlines()[-1]))


def test_what_computes_is_a_librarys() -> None:
    record = recorded(COMPUTE)
    assert record.complete
    missed = [k.name for k in record.kernels if not is_library(k) and not is_move(k.name)]
    assert not missed, missed
    assert sum(is_library(kernel) for kernel in record.kernels) >= 15
    assert not any(is_own(kernel) for kernel in record.kernels)


def test_moves_are_moves() -> None:
    record = recorded(MOVES)
    assert record.complete
    assert record.kernels
    others = [kernel.name for kernel in record.kernels if not is_move(kernel.name)]
    assert not others, others


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with pool_of("gpu", "standard") as pool:
        yield pool


@asynchronous
async def test_the_layer_is_active(pool: LocalPool) -> None:
    assert pool.health()["sandbox"]["provenance"]["state"] == "active", pool.health()["sandbox"]


@asynchronous
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("native/callback_on_thread", "gemm"),
        ("native/one_percent", "gemm"),
        ("native/device_sum", "cub::"),
    ],
)
async def test_caught_by_name(pool: LocalPool, name: str, kernel: str) -> None:
    (exploit,) = [exploit for exploit in exploits() if exploit.name == name]
    outcome = (await judged(pool, exploit, "unchecked")).outcome
    assert isinstance(outcome, Rejected), outcome
    assert outcome.rule == "provenance", outcome
    assert kernel in outcome.message


@asynchronous
@pytest.mark.parametrize("name", [e.name for e in exploits("gpu") if e.honest and e.cuda])
async def test_an_honest_one_passes(pool: LocalPool, name: str) -> None:
    (exploit,) = [exploit for exploit in exploits() if exploit.name == name]
    finding = await judged(pool, exploit, "submission")
    assert finding.result == "passed", finding
