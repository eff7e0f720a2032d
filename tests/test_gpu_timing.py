"""What counts as time on a CUDA device: side streams, sleep and forged clocks; skipped and late work is refused.

Hostile code that the static checks refuse already runs in the mode for tasks, without checks and guard: what is
shown here is that timing does not need them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool, visible_gpus
from kernel_env.server.outcome import Outcome, Timing

from .pools import evaluated, started

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
    pytest.mark.asyncio(loop_scope="module"),
]

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(ROWS, 16384)]


def get_init_inputs():
    return []
"""
SMALL, LARGE = TASK.replace("ROWS", "4096"), TASK.replace("ROWS", "98304")

HONEST = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        y = torch.empty_like(x)
        self.launch(x, y)
        return y

    def launch(self, x, y):
        affine[(triton.cdiv(x.numel(), 2048),)](x, y, x.numel(), BLOCK=2048)
"""


def forward(body: str, top: str = "") -> str:
    """The honest submission with another `forward`."""
    plain = "        y = torch.empty_like(x)\n        self.launch(x, y)\n        return y\n"
    assert plain in HONEST
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return HONEST.replace(plain, lines).replace("class ModelNew", f"{top}\n\nclass ModelNew")


LATE = forward(
    """
y = torch.empty_like(x)
with torch.cuda.stream(self.side):
    torch.cuda._sleep(20_000_000)
    self.launch(x, y)
return y
"""
).replace("self.calls = 0", "self.side = torch.cuda.Stream()")
AWAITED = forward(
    """
y = torch.empty_like(x)
self.side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(self.side):
    for _ in range(3):
        self.launch(x, y)
torch.cuda.current_stream().wait_stream(self.side)
return y
"""
).replace("self.calls = 0", "self.side = torch.cuda.Stream()")
BESIDE = forward(
    """
y = torch.empty_like(x)
self.launch(x, y)
with torch.cuda.stream(self.side):
    for _ in range(6):
        self.launch(x, self.other)
return y
"""
).replace(
    "self.calls = 0", "self.side = torch.cuda.Stream(); self.other = torch.empty(4096, 16384, device='cuda')"
)
SKIPS = forward(
    """
self.calls += 1
if self.calls <= 20 or self.calls % 3:
    self.kept = torch.empty_like(x)
    self.launch(x, self.kept)
return self.kept
"""
)
SLEEPS = forward("y = torch.empty_like(x)\ntime.sleep(SECONDS)\nself.launch(x, y)\nreturn y", top="import time")
THRICE = forward("y = torch.empty_like(x)\nfor _ in range(3):\n    self.launch(x, y)\nreturn y")
FORGED = HONEST.replace(
    "class ModelNew", "torch.cuda.Event.elapsed_time = lambda self, other: 0.001\n\n\nclass ModelNew"
)
HALF_FORGED = HONEST.replace(
    "class ModelNew",
    "true = torch.cuda.Event.elapsed_time\n"
    "torch.cuda.Event.elapsed_time = lambda self, other: 0.5 * true(self, other)\n\n\nclass ModelNew",
)
SAYS_DONE = HONEST.replace(
    "class ModelNew",
    "from kernel_env.server.candidate import Candidate\n\n\n"
    "def on_queue(self, request, fds):\n"
    "    self._words[-1]._view[16] = request['value']\n"
    "    return {}\n\n\n"
    "Candidate.on_queue = on_queue\n\n\nclass ModelNew",
)
OPENS_ITSELF = HONEST.replace(
    "class ModelNew",
    "from kernel_env.server.candidate import Candidate\n\n"
    "original = Candidate.on_queue\n\n\n"
    "def on_queue(self, request, fds):\n"
    "    self._words[-1].open_gate(request['value'])\n"
    "    reply = original(self, request, fds)\n"
    "    torch.cuda.synchronize()\n"
    "    return reply\n\n\n"
    "Candidate.on_queue = on_queue\n\n\nclass ModelNew",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    async with started(Settings(evaluator="gpu", trials=2, timing_budget_s=0.5)) as pool:
        yield pool


async def judge(
    pool: LocalPool, code: str, task: str = SMALL, mode: Literal["submission", "audit"] = "audit"
) -> Outcome:
    return (await evaluated(pool, code, task=task, mode=mode)).outcome


async def timed(
    pool: LocalPool, code: str, task: str = SMALL, mode: Literal["submission", "audit"] = "audit"
) -> Timing:
    outcome = await judge(pool, code, task, mode)
    assert outcome.kind == "passed", outcome
    assert outcome.timing is not None
    return outcome.timing


async def test_an_honest_kernel_is_believed(pool: LocalPool) -> None:
    for task in (SMALL, LARGE):
        timing = await timed(pool, HONEST, task, "submission")
        assert timing.clock == "events"
        assert not timing.launch_bound
        assert 1.5 < timing.speedup < 2.5


async def test_work_that_ends_after_the_call_is_refused(pool: LocalPool) -> None:
    outcome = await judge(pool, LATE)
    assert outcome.kind == "wrong_output", outcome


@pytest.mark.parametrize(
    ("code", "times"), [(THRICE, 3.0), (AWAITED, 3.0), (BESIDE, 4.0)], ids=["thrice", "awaited", "beside"]
)
async def test_every_stream_counts(pool: LocalPool, code: str, times: float) -> None:
    once, more = await timed(pool, HONEST), await timed(pool, code)
    assert more.runtime_ms > 0.85 * times * once.runtime_ms, (once, more)


async def test_work_skipped_when_timed_is_refused(pool: LocalPool) -> None:
    outcome = await judge(pool, SKIPS)
    assert outcome.kind == "wrong_output", outcome
    assert outcome.stage == "timing"


async def test_sleep_counts(pool: LocalPool) -> None:
    once = await timed(pool, HONEST, LARGE)
    slow = await timed(pool, SLEEPS.replace("SECONDS", repr(2e-3 * once.runtime_ms)), LARGE)
    assert 0.28 < once.runtime_ms / slow.runtime_ms < 0.38, (once, slow)


@pytest.mark.parametrize("code", [FORGED, HALF_FORGED, OPENS_ITSELF], ids=["forged", "half", "opens"])
@pytest.mark.parametrize("task", [SMALL, LARGE], ids=["small", "large"])
async def test_a_forged_clock_is_no_use(pool: LocalPool, code: str, task: str) -> None:
    outcome = await judge(pool, code, task)
    if outcome.kind == "passed":
        once, timing = await timed(pool, HONEST, task), outcome.timing
        assert timing is not None
        assert timing.runtime_ms > 0.9 * once.runtime_ms, (once, timing)
    else:
        assert outcome.kind in ("wrong_output", "impossible_timing"), outcome


async def test_saying_done_too_early_is_refused(pool: LocalPool) -> None:
    outcome = await judge(pool, SAYS_DONE)
    assert outcome.kind == "wrong_output", outcome


async def test_memory_that_is_only_cached_is_there_for_a_candidate_that_keeps_none(pool: LocalPool) -> None:
    """Judge and twin between them leave less than a call needs: a right answer is no lack of memory."""
    space = "int(0.36 * torch.cuda.get_device_properties(0).total_memory)"
    wide = f"x.expand({space} // (4 * x.numel()), *x.shape).contiguous()[0]"
    task = TASK.replace("ROWS", "64").replace("return x *", f"return {wide} *")
    code = forward(f"""
torch.empty({space}, dtype=torch.uint8, device=x.device)
torch.cuda.empty_cache()
y = torch.empty_like(x)
self.launch(x, y)
return y
""")
    assert (await timed(pool, code, task)).clock
