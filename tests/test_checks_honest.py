"""Static checks: honest code passes. Whole submissions lie in `honest/<language>/`; here are the variations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_env.server.checks import check

LIMIT = 256 * 1024
FILES = sorted((Path(__file__).parent / "honest").glob("*/*.py"))

KERNEL = """
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
"""
HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""


def body(*lines: str, init: str = "pass", top: str = "") -> str:
    """A submission whose `forward` begins with `lines`."""
    inner = "".join(f"        {line}\n" for line in lines)
    return (
        f"{HEAD}{KERNEL}{top}\nclass ModelNew(nn.Module):\n    def __init__(self, n=4):\n"
        f"        super().__init__()\n        {init}\n    def forward(self, x):\n{inner}"
        "        y = torch.empty_like(x)\n"
        "        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n        return y\n"
    )


VARIATIONS = {
    "unused includes": body("pass", top='CPP = """#include <cublas_v2.h>\n#include "cudnn.h"\nint x;"""\n'),
    "comment on torch.matmul": body("# like torch.matmul(x, x), F.softmax(x) and x @ x"),
    "docstring": body('"""pass; eval(x); torch.exp(x); x @ x; import subprocess"""'),
    "docstring with C++": body('"""at::matmul(a, b); #include <cublas_v2.h>"""'),
    "error message": body("assert x.dim() > 0, 'torch.softmax needs eval() and open() and x.sum()'"),
    "pass and finally": body("try:", "    pass", "finally:", "    pass"),
    "shape arithmetic": body("n = max(x.shape) * sum(x.shape) + min(x.size()) + x.shape.numel()"),
    "math": body("import math", "n = math.prod(x.shape); m = math.sqrt(n); k = math.log2(n); e = math.exp(1.0)"),
    "numpy on shapes": body(
        "import numpy as np", "n = int(np.prod(x.shape)); m = np.sum(x.shape); k = np.max(x.shape)"
    ),
    "python sets": body("seen = set()", "seen.add(x.data_ptr())", "names = ['a'].index('a')"),
    "dtype limits": body("low = torch.finfo(x.dtype).min; high = torch.iinfo(torch.int32).max"),
    "layout": body("x = x.view(-1, 1).transpose(0, 1).permute(1, 0).contiguous().flatten().to(torch.float32)"),
    "padding": body("x = torch.nn.functional.pad(x, (0, 1)).contiguous()"),
    "allocation": body("z = x.new_zeros(3); z = torch.full((2,), 1.0, device=x.device); z.fill_(0).copy_(z)"),
    "settings": body(init="torch.backends.cuda.matmul.allow_tf32 = True; torch.backends.cudnn.benchmark = True"),
    "no_grad": body("with torch.no_grad(), torch.cuda.device_of(x):", "    pass"),
    "inference": body("torch.inference_mode()", "torch.cuda.current_stream()"),
    "os": body(
        "import os", "os.environ['TRITON_CACHE_DIR'] = '/tmp/x'; n = os.cpu_count(); os.path.join('a', 'b')"
    ),
    "sys": body("import sys", "if sys.version_info < (3, 9): raise RuntimeError(sys.platform)"),
    "time and warnings": body("import time, warnings", "t = time.perf_counter(); warnings.warn(str(t))"),
    "getattr": body("f = getattr(self, 'scale', None); d = getattr(torch, 'float16'); g = getattr(tl, 'float32')"),
    "setattr on self": body(init="setattr(self, 'scale', 2.0); self.eval = True"),
    "attributes of own objects": body("double.tuned = True", "self.calls = 1", "y = torch.empty(1); y.tag = 1"),
    "re.compile": body("import re", "re.compile('a').match('b')"),
    "user's own names": body("open(3)", top="def open(n):\n    return n\n\ndef compile(n):\n    return open(n)\n"),
    "parameter names": body("h(1, 2)", top="def h(F, eval):\n    return F.softmax(eval)\n"),
    "method names": body(
        "self.eval(); self.compile = None", top="class A:\n    def exec(self): ...\n    open = 1\n"
    ),
    "super with arguments": body("super(ModelNew, self).__repr__()"),
    "class name": body("name = self.__class__.__name__; doc = double.__doc__; m = type(self).__module__"),
    "init computes": body(init="self.w = nn.Parameter((torch.eye(3) @ torch.ones(3)).softmax(0).sum().sqrt())"),
    "init helper computes": body(
        init="self.w = prepare(nn.Linear(3, 3))",
        top="def prepare(fc):\n    return torch.cat([fc.weight.t(), fc.weight]) / torch.norm(fc.weight)\n",
    ),
    "init runs a layer": body(init="self.fc = nn.Linear(3, 3); self.b = self.fc(torch.zeros(1, 3)).detach()"),
    "weights of layers": body(
        "w = self.fc.weight.t().contiguous(); b = self.fc.bias; e = self.bn.eps; r = self.bn.running_mean",
        init="self.fc = nn.Linear(3, 3); self.bn = nn.BatchNorm1d(3)",
    ),
    "identity": body("x = self.drop(x)", init="self.drop = nn.Dropout(0.0); self.flat = nn.Flatten()"),
    "reference kept for tests": body(top="def reference(x):\n    return torch.softmax(x, dim=-1).sum()\n"),
    "main": body() + "\nif __name__ == '__main__':\n    print(torch.allclose(ModelNew()(torch.rand(4)), 1))\n",
    "inputs kept": body() + "\ndef get_inputs():\n    return [torch.randn(4) @ torch.eye(4)]\n",
    "@ in a kernel": HEAD + KERNEL.replace("* 2", "@ tl.load(x_ptr).sum(axis=0)") + MODEL,
    "operators in a jit helper": HEAD
    + "\n@triton.jit\ndef act(x):\n    return (x @ x).sum().exp()\n"
    + KERNEL.replace("* 2", "* act(1)")
    + MODEL,
    "jit by call": HEAD + KERNEL.replace("@triton.jit", "") + "\ndouble = triton.jit(double)\n" + MODEL,
    "kernel in a dict": HEAD + KERNEL + "K = {}\nK['d'] = double\n" + MODEL.replace("double[(", "K['d'][("),
    "kernel in an attribute": HEAD
    + KERNEL
    + MODEL.replace("double[(", "self.k[(").replace("    def forward", "    k = double\n    def forward"),
    "kernel in a variable": HEAD
    + KERNEL
    + MODEL.replace("double[", "k = double; grid = (1,)\n        k[grid]; k["),
    "jit alias": HEAD + "jit = triton.jit\n" + KERNEL.replace("triton.jit", "jit") + MODEL,
    "from-imports": "from triton import jit, cdiv\nfrom torch import empty_like\nfrom torch.nn import Module\n"
    "import triton.language as tl\n"
    + KERNEL.replace("@triton.jit", "@jit")
    + MODEL.replace("nn.Module", "Module")
    .replace("torch.empty_like", "empty_like")
    .replace("triton.cdiv", "cdiv"),
    "full path": HEAD + KERNEL + MODEL.replace("nn.Module", "torch.nn.Module"),
    "intermediate base": HEAD
    + KERNEL
    + MODEL.replace("ModelNew(nn.Module)", "Base(nn.Module)")
    + "\nclass ModelNew(Base):\n    pass\n",
    "mixin": HEAD
    + KERNEL
    + "class Mixin:\n    ...\n"
    + MODEL.replace("ModelNew(nn.Module)", "ModelNew(Mixin, nn.Module)"),
    "unknown base": HEAD + KERNEL + "Base = [nn.Module][0]\n" + MODEL.replace("nn.Module", "Base"),
    "layer as base": HEAD + KERNEL + MODEL.replace("nn.Module", "nn.Linear"),
    "guarded class": HEAD + KERNEL + "if torch.__version__:\n    " + MODEL.strip().replace("\n", "\n    ") + "\n",
    "custom op": body(
        "torch.ops.own.double(x)",
        top="@torch.library.custom_op('own::double', mutates_args=())\ndef op(x: torch.Tensor) -> torch.Tensor:\n"
        "    return torch.empty_like(x)\n",
    ),
    "carriage returns": body("z = 1").replace("\n", "\r\n"),
    "autotuner on the host": body("best = min((1.0, 2.0)); s = sorted([3, 1]); a = abs(-1); r = round(1.5)"),
    "a host tensor's statistics": body(
        "best = torch.argmin(torch.tensor([1.0, 2.0])); t = torch.tensor([3.0]).mean()"
    ),
    "a hidden name": body("softmax = 1; n = softmax + 1", top="def softmax(x):\n    return torch.softmax(x, 0)\n"),
    "CUDA graph in forward": body("g = torch.cuda.CUDAGraph()"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_whole_submissions_pass(path: Path) -> None:
    outcome = check(path.read_text(), path.parent.name, LIMIT)  # type: ignore[arg-type]
    assert outcome is None


@pytest.mark.parametrize("name", VARIATIONS)
def test_variations_pass(name: str) -> None:
    assert check(VARIATIONS[name], "triton", LIMIT) is None


def test_the_corpus_is_there() -> None:
    assert {path.parent.name for path in FILES} == {"triton", "cuda", "cpp"}
    assert len(FILES) + len(VARIATIONS) >= 60


def test_nothing_warns() -> None:
    """Invalid escapes in C++ inside a plain string must not become errors where warnings are."""
    assert check(body() + '\nCPP = "a \\w \\d"\n', "triton", LIMIT) is None
