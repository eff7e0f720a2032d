"""Kernels compiled before there is a device: a task's sketch, and what a rehearsal leaves in the cache.

Triton compiles for a GPU without one; the process that does is not this one, where Triton interprets.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import torch

from kernel_env.server.frames import TRUSTED_CAP, Peer
from kernel_env.server.layers import Plan
from kernel_env.server.sketch import sketch

CPU = torch.device("cpu")
TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.relu(x * self.weight)

def get_inputs():
    return [torch.rand(128, 4096).t()]

def get_init_inputs():
    return [128]
"""
SUBMISSION = """
import torch
import triton
import triton.language as tl

@triton.jit
def plain(x, w, y, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * tl.load(w + at % WIDTH, mask=at < n)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < n)

CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=2)]

@triton.autotune(configs=CONFIGS, key=["n"], cache_results=True)
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        plain[(triton.cdiv(x.numel(), 1024),)](x, self.weight, y, x.numel(), x.shape[1], BLOCK=1024)
        out = torch.empty_like(y)
        tuned[lambda meta: (triton.cdiv(y.numel(), meta["BLOCK"]),)](y, out, y.numel())
        return out
"""
REHEARSE = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import torch
from triton.runtime.jit import JITFunction
from kernel_env.server import candidate, rehearsal
run = JITFunction.run
facts = dict(capability=90, max_shared_mem=232448, multiprocessor_count=132, max_num_regs=65536, warpSize=32)
unanswered = rehearsal.pretend(facts)
module = candidate.load_submission(sys.argv[1])
rehearsal.rehearse(module, json.loads(sys.argv[2]), torch.device("cpu"))
assert not unanswered, unanswered
listed = sorted(path.name for path in Path(sys.argv[3]).iterdir())
x, w, y = torch.rand(4096, 128), torch.ones(128), torch.empty(4096, 128)
options = dict(grid=(1,), warmup=True)
run(module.plain, x, w, y, x.numel(), 128, BLOCK=1024, **options)
run(module.tuned.fn, y, x, y.numel(), BLOCK=128, num_warps=2, **options)
assert listed == sorted(path.name for path in Path(sys.argv[3]).iterdir())
"""


def ran(program: str, cache: Path, *arguments: str, keep: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    """In a process where Triton compiles, into a cache of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache), "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        pass_fds=keep,
        check=False,
    )


def test_a_sketch_holds_shapes_and_strides() -> None:
    found = sketch("user/relu", TASK, CPU)
    assert found["inputs"] == {
        "skeleton": {"list": [{"tensor": 0}]},
        "slots": [[[4096, 128], [1, 4096], "float32", 0]],
    }
    json.dumps(found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.rand(128, 4096).t()", "torch.rand(8).tolist()"),
        ("return [128]", "return [torch.ones(3)]"),
        ("import torch", "import torch, sys\nraise ValueError('no')"),
        ("return [128]", "return [lambda: 1]"),
    ],
)
def test_what_needs_real_data_has_no_sketch(old: str, new: str) -> None:
    assert old in TASK
    assert sketch("user/relu", TASK.replace(old, new), CPU) == {}


def test_a_rehearsal_compiles_what_the_device_will_ask_for(tmp_path: Path) -> None:
    pytest.importorskip("triton.backends.nvidia")
    source, cache = tmp_path / "submission.py", tmp_path / "cache"
    source.write_text(SUBMISSION)
    done = ran(REHEARSE, cache, str(source), json.dumps(sketch("user/relu", TASK, CPU)), str(cache))
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(list(cache.rglob("plain.cubin"))) == 1
    assert len(list(cache.rglob("tuned.cubin"))) == 2
    assert not list(cache.rglob("*.autotune.json"))  # of times that were none


ASKS = """
import torch
import triton
import triton.language as tl
from torch.cuda import device_count

@triton.jit
def filled(y, FACT: tl.constexpr, WANTED: tl.constexpr):
    tl.static_assert(FACT == WANTED)
    tl.store(y + tl.arange(0, 64), 1.0)

AT_IMPORT = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 0
CORES = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.facts = [AT_IMPORT, CORES, device_count()]
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.facts += [properties.multi_processor_count, torch.cuda.get_device_capability()[0]]

    def forward(self, x):
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            for fact, wanted in zip(self.facts, [9, 132, 1, 132, 9]):
                filled[(1,)](y, fact, wanted)
        return y
"""
TOLD = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from kernel_env.server import preload, rehearsal
preload.STEPS["fake-tensors"]()
for link, spec in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        rehearsal.main(link, spec, os.getppid())
        os._exit(0)
    os.waitpid(child, 0)
"""
FACTS = {
    "capability": 90,
    "max_shared_mem": 232448,
    "multiprocessor_count": 132,
    "max_num_regs": 65536,
    "warpSize": 32,
}


def told(folder: Path, codes: Sequence[str]) -> list[Any]:
    """What a rehearsal of each says, in a process that nothing confines."""
    pytest.importorskip("triton.backends.nvidia")
    with ExitStack() as stack:
        peers, children = [], []
        for index, code in enumerate(codes):
            home = folder / str(index)
            home.mkdir()
            (home / "submission.py").write_text(code)
            ours, theirs = socket.socketpair()
            peers.append(stack.enter_context(closing(Peer(ours, TRUSTED_CAP))))
            children.append((stack.enter_context(theirs).fileno(), spec(home)))
        done = ran(TOLD, folder, json.dumps(children), keep=[link for link, _ in children])
        assert done.returncode == 0, done.stderr[-2000:]
        return [peer.receive(5.0) for peer in peers]


def spec(home: Path) -> dict[str, Any]:
    return {
        "scratch": str(home),
        "source": str(home),
        "plan": Plan().json(),
        "environment": {},
        "device": "cuda",
        "precision": "fp32",
        "sketch": sketch("user/relu", TASK, CPU),
        "facts": FACTS,
    }


def test_a_submission_finds_the_device_it_will_run_on_and_is_told_of_kernels_that_do_not_compile(
    tmp_path: Path,
) -> None:
    right, wrong = told(tmp_path, [ASKS, ASKS.replace("132, 9]", "132, 8]")])
    assert right == {}
    assert wrong["error"] == "build"
    assert "static_assert" in wrong["message"]


ASKED = (
    "getattr(properties, 'L2_cache_size', 0)",
    "triton.runtime.driver.active.utils.get_device_properties(0).get('mem_clock_rate', 0)",
    "tried(torch.cuda.get_device_name)",
    "tried(torch.cuda.init)",
)


def test_a_submission_that_asks_for_more_is_tried_on_the_device(tmp_path: Path) -> None:
    last = "torch.cuda.get_device_capability()[0]]\n"
    codes = [ASKS.replace(last, f"{asked} and 9]\n") + TRIED for asked in ASKED]
    assert all(asked in code for asked, code in zip(ASKED, codes, strict=True))
    assert told(tmp_path, [*codes, CHOSEN]) == [{}] * (len(ASKED) + 1)


CHOSEN = """
import torch
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def tuned(x, y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))

@triton.jit
def follows(x, y, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK == 128)

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        tuned[(1,)](x, y)
        follows[(1,)](x, y, BLOCK=tuned.best_config.kwargs["BLOCK"])
        return y
"""
TRIED = """
def tried(ask):
    try:
        return ask()
    except Exception:
        return 0
"""


def test_a_host_without_memory_is_no_fault_of_a_kernel(tmp_path: Path) -> None:
    code = ASKS.replace("tl.static_assert(FACT == WANTED)", "lacking(FACT)")
    code = code.replace("@triton.jit\n", LACKING + "@triton.jit\n")
    lacking, wrong = told(tmp_path, [code, code.replace("MemoryError", "ValueError")])
    assert lacking == {}
    assert wrong["error"] == "build"


LACKING = """
@tl.core.builtin
def lacking(fact, _semantic=None):
    raise MemoryError

"""
