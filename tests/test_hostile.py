"""What a submission does to its own process and folder stays its own fault, and nothing of it remains."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Outcome

from .pools import evaluated, started
from .processes import cpu_s, find, folder_of, until_running
from .submissions import RIGHT, TASK, in_forward, vary

pytestmark = pytest.mark.slow
asynchronous = pytest.mark.asyncio(loop_scope="module")

SECRET = "a-token-of-the-server"

# A way to modules that the static checks refuse, so that what comes behind them is tried.
REACH = """
def reach(name):
    return getattr(reach, "__glo" + "bals__")["__buil" + "tins__"]["__imp" + "ort__"](name)


"""


def at_import(statements: str) -> str:
    return vary("@triton.jit\n", f"{REACH}{statements}\n\n\n@triton.jit\n")


def when_run(statement: str) -> str:
    return in_forward(statement).replace("@triton.jit\n", f"{REACH}@triton.jit\n", 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[LocalPool]:
    settings = Settings(evaluator="cpu", trials=1, correctness_timeout_s=10.0, build_timeout_s=8.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_ENV_TOKEN", SECRET)
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", "") + ":")  # the working folder is on it
        async with started(settings) as pool:
            yield pool


async def until_noted(worker: int, name: str) -> str:
    """Wait until a candidate has written something into a file of its scratch folder."""
    for _ in range(600):
        for note in folder_of(worker).glob(f"candidate-*/{name}"):
            with suppress(FileNotFoundError):
                if text := note.read_text():
                    return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"no candidate wrote {name}")


async def judge(pool: LocalPool, code: str, source: str = TASK) -> Outcome:
    return (await evaluated(pool, code, task=source)).outcome


@asynchronous
async def test_a_rewritten_source_is_not_what_runs(pool: LocalPool) -> None:
    rewrite = "try:\n    reach('pathlib').Path(__file__).write_text('raise ValueError')\nexcept OSError:\n    pass"
    assert (await judge(pool, at_import(rewrite))).kind == "passed"


@asynchronous
async def test_a_worker_that_dies_takes_no_other_submission_with_it(pool: LocalPool) -> None:
    """It dies each time that one of them runs."""
    note = "reach('pathlib').Path('here').write_text('1'); reach('time').sleep(1000)"
    fatal = asyncio.create_task(judge(pool, when_run(note)))
    others = asyncio.gather(*(judge(pool, RIGHT) for _ in range(2)))
    killed: set[int] = set()
    for _ in range(2):
        while not (workers := {*find("server.worker", leaf=False)} - killed):
            await asyncio.sleep(0.05)
        worker = workers.pop()
        await until_noted(worker, "here")
        os.kill(worker, signal.SIGKILL)
        killed.add(worker)
    assert [outcome.kind for outcome in await others] == ["passed", "passed"]
    outcome = await fatal
    assert outcome.kind == "infrastructure"
    assert not outcome.retryable
    assert "twice" in outcome.message
    assert (await judge(pool, RIGHT)).kind == "passed"


@asynchronous
async def test_planted_modules_are_imported_by_nobody(pool: LocalPool) -> None:
    """Modules in the folder that our processes run in, and in what was once the zygote's home."""
    (worker,) = find("server.worker")
    root = folder_of(worker)
    code = f"import os; open(os.path.join({str(root)!r}, 'imported-by-' + str(os.getpid())), 'w')"
    library = root / f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    library.mkdir(parents=True)
    (library / "usercustomize.py").write_text(code)
    for name in ("sitecustomize", "torch", "json", "socket", "kernel_env"):
        (root / f"{name}.py").write_text(code)
    old = {*find("server.judge"), *find("server.zygote", leaf=False)}
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    assert (await judge(pool, RIGHT)).kind == "passed"
    assert not old & {*find("server.judge"), *find("server.zygote", leaf=False)}
    assert not [entry for entry in os.listdir(root) if entry.startswith("imported-by-")]


@asynchronous
async def test_nothing_of_the_servers_environment_is_handed_down(pool: LocalPool) -> None:
    ours = [*find("server.worker"), *find("server.judge"), *find("server.zygote", leaf=False)]
    assert len(ours) == 3
    for pid in ours:
        with suppress(PermissionError):  # not even ours to read
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


# Answers the judge's request by itself and never reads again.
DEAF = "reach('os').write(3, b'\\0\\0\\0\\2{}'); "
# A request to construct that no socket buffer holds.
HEAVY = TASK.replace(
    "    def forward", "    def __init__(self, text):\n        super().__init__()\n\n    def forward"
)
HEAVY = HEAVY.replace("return []", "return ['x' * 2_000_000]")


@asynchronous
async def test_a_candidate_that_does_not_read_is_out_of_time(pool: LocalPool) -> None:
    begun = time.monotonic()
    outcome = await judge(pool, at_import(f"{DEAF}reach('time').sleep(1000)"), HEAVY)
    assert (outcome.kind, outcome.stage) == ("timed_out", "compile"), outcome
    assert time.monotonic() - begun < 30.0


@asynchronous
async def test_a_candidate_that_dies_unread_has_crashed(pool: LocalPool) -> None:
    """A process of its own keeps the link open."""
    stay = "os = reach('os')\nif os.fork() == 0:\n    os.setsid()\n    reach('time').sleep(1000)\n"
    code = at_import(f"{stay}{DEAF}reach('time').sleep(1); os.kill(os.getpid(), 9)")
    begun = time.monotonic()
    outcome = await judge(pool, code, HEAVY)
    assert (outcome.kind, outcome.stage) == ("crashed", "compile"), outcome
    assert time.monotonic() - begun < 20.0


@asynchronous
async def test_a_dead_candidate_keeps_nobody_busy(pool: LocalPool) -> None:
    """It dies while the judge still prepares the task and can't notice."""
    slow = TASK.replace("def get_inputs():", "def get_inputs():\n    import time; time.sleep(2.0)")
    (worker,) = find("server.worker")
    (zygote,) = find("server.zygote", leaf=False)
    step = asyncio.create_task(judge(pool, RIGHT, slow))
    os.kill(await until_running(zygote), signal.SIGKILL)
    before = cpu_s(worker)
    await asyncio.sleep(1.5)
    assert cpu_s(worker) - before < 0.5
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
