"""Static checks: what must be refused and by which rule, and hostile text. Honest code: `test_checks_honest`."""

from __future__ import annotations

import textwrap

import pytest

from kernel_env.server.checks import check
from kernel_env.server.outcome import BuildFailed, Rejected

LIMIT = 256 * 1024

TRITON = """\
import os, sys, time, types, tempfile, functools, operator
import torch
import torch.nn as nn
import torch.nn.functional as F
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

{top}

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        {forward}
        return y
"""

INLINE = '''\
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
{top}
__global__ void own(const float* x, float* y, int n) {{ int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }}
torch::Tensor run(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    own<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    {body}
    return y;
}}
"""
ext = load_inline(name="own", cpp_sources="torch::Tensor run(torch::Tensor x);", {argument}=SOURCE, {extra})

class ModelNew(nn.Module):
    def forward(self, x):
        return {forward}
'''


def triton(forward: str = "pass", top: str = "", init: str = "pass") -> str:
    return TRITON.format(forward=textwrap.indent(forward, " " * 8).strip(), top=top, init=init)


def inline(
    body: str = "",
    top: str = "",
    extra: str = "verbose=False",
    forward: str = "ext.run(x)",
    argument: str = "cuda_sources",
) -> str:
    return INLINE.format(body=body, top=top, extra=extra, forward=forward, argument=argument)


def model(header: str, body: str = "def forward(self, x): return x") -> str:
    return f"import torch\nimport torch.nn as nn\nfrom torch import Tensor\n{header}\n    {body}\n"


REJECTED = {
    # ModelNew
    "no class": ("model-missing", "import torch\n\ndef forward(x):\n    return x\n"),
    "empty": ("model-missing", ""),
    "prose": ("model-missing", "'I could not write a kernel.'"),
    "class in a function": ("model-missing", "def make():\n    class ModelNew:\n        pass\n"),
    "not a module": ("model-base", model("class ModelNew:")),
    "object": ("model-base", model("class ModelNew(object):")),
    "the reference's subclass": ("model-base", model("class ModelNew(Model):", "...")),
    "autograd function": ("model-base", model("class ModelNew(torch.autograd.Function):")),
    "no forward": ("model-forward", model("class ModelNew(nn.Module):", "def run(self, x): return x")),
    "a layer's own forward": ("model-forward", model("class ModelNew(nn.Linear):", "pass")),
    # Imports
    "subprocess": ("import", triton(top="import subprocess")),
    "inspect in forward": ("import", triton("import inspect")),
    "ctypes": ("import", triton(top="from ctypes import CDLL")),
    "gc": ("import", triton(top="import gc as collector")),
    "threading": ("import", triton(top="import threading")),
    "_thread": ("import", triton(top="import _thread")),
    "concurrent": ("import", triton(top="from concurrent.futures import ThreadPoolExecutor")),
    "asyncio": ("import", triton(top="import asyncio")),
    "importlib": ("import", triton(top="importlib = None\nfrom importlib import import_module")),
    "cupy": ("import", triton(top="import cupy as cp")),
    "flash_attn": ("import", triton(top="try:\n  import flash_attn\nexcept ImportError: pass")),
    "reference": ("import", triton(top="from task import Model")),
    "relative": ("import", triton(top="from . import reference")),
    "borrowed os": ("import", triton("torch.os.getpid()")),
    "borrowed subprocess": ("import", triton(top="from torch.utils.cpp_extension import subprocess")),
    "np.load": ("import", triton("np.load('/tmp/expected.npy')")),
    # Torch's compilers and internals
    "torch.compile": ("compiler", triton(init="self.f = torch.compile(lambda x: x * 2)")),
    "compile decorator": ("compiler", triton(top="from torch import compile as c\n@c\ndef f(x): ...")),
    "torch.jit": ("compiler", triton(top="scripted = torch.jit.script(nn.ReLU())")),
    "fx": ("compiler", triton(top="from torch.fx import symbolic_trace")),
    "inductor": ("compiler", triton(top="import torch._inductor.config as cfg")),
    "graphed callables": ("compiler", triton(init="torch.cuda.make_graphed_callables(nn.ReLU(), ())")),
    "aten": ("torch-internal", triton("y = torch.ops.aten.mul(x, 2)")),
    "_C": ("torch-internal", triton("y = torch._C._nn.gelu(x)")),
    "dispatch mode": ("torch-internal", triton(top="from torch.utils._python_dispatch import TorchDispatchMode")),
    "torch.load": ("torch-internal", triton("y = torch.load('expected.pt')")),
    "multiprocessing": ("process", triton(top="import torch.multiprocessing as mp")),
    # Interpreter
    "eval": ("builtin", triton("y = eval('x * 2')")),
    "exec": ("builtin", triton(top="exec('import socket')")),
    "exec alias": ("builtin", triton(top="run = exec\nrun('1')")),
    "compile": ("builtin", triton(top="code = compile('1', 'f', 'eval')")),
    "__import__": ("builtin", triton("__import__('socket')")),
    "open": ("builtin", triton("open('/tmp/replay', 'wb').write(b'')")),
    "exit": ("builtin", triton("exit(0)")),
    "os.system": ("process", triton("os.system('true')")),
    "os._exit": ("process", triton("os._exit(0)")),
    "os.fork": ("process", triton(top="from os import fork\nfork()")),
    "getattr on os": ("process", triton("getattr(os, 'kill')(1, 9)")),
    "sys.exit": ("process", triton("sys.exit(0)")),
    "sys.modules": ("process", triton("sys.modules['torch']")),
    "sys._getframe": ("process", triton("sys._getframe(1)")),
    "frames": ("reflection", triton("try:\n  1 / 0\nexcept Exception as e:\n  e.__traceback__.tb_frame")),
    "subclasses": ("reflection", triton("object.__subclasses__()")),
    "globals of a function": ("reflection", triton("nn.Module.__call__.__globals__")),
    "builtins name": ("reflection", triton("__builtins__['eval']")),
    "constant dunder": ("reflection", triton("globals()['__builtins__']")),
    "code object": ("reflection", triton("double.fn.__code__ = None")),
    "constant getattr": ("reflection", triton("y = getattr(torch, 'matmul')(x, x)")),
    "computed getattr": ("reflection", triton("y = getattr(torch, 'mat' + 'mul')(x, x)")),
    "computed getattr on F": ("reflection", triton("y = getattr(F, ''.join(['re', 'lu']))(x)")),
    "attrgetter": ("reflection", triton("y = operator.attrgetter('relu')(torch)(x)")),
    "module dict": ("reflection", triton("y = torch.__dict__['relu'](x)")),
    "vars": ("reflection", triton("y = vars(torch)['relu'](x)")),
    # Patching
    "finalizer": ("override", triton(top="class Held:\n  def __del__(self): self.late()")),
    "state": ("override", triton(top="class Base(nn.Module):\n  def state_dict(self, *a, **k): return {}")),
    "copy": ("override", triton(top="class Held:\n  def __deepcopy__(self, memo): return self")),
    "reduce": ("override", triton(top="class Held:\n  def __reduce__(self): return print, ('passed',)")),
    "exit handler": ("import", triton(top="import atexit")),
    "profiler": ("profiler", triton(top="import torch.profiler")),
    "profiler in forward": ("profiler", triton("torch.autograd.profiler._disable_profiler()")),
    "synchronize": ("monkeypatch", triton(top="torch.cuda.synchronize = lambda *a: None")),
    "event": ("monkeypatch", triton("torch.cuda.Event.elapsed_time = lambda self, end: 0.001")),
    "clock": ("monkeypatch", triton(top="time.perf_counter = lambda: 0.0")),
    "setattr": ("monkeypatch", triton(top="setattr(torch, 'allclose', lambda *a, **k: True)")),
    "alias": ("monkeypatch", triton(top="cuda = torch.cuda\ncuda.Event = None")),
    "tensor method": ("monkeypatch", triton(top="from torch import Tensor\nTensor.__eq__ = lambda a, b: True")),
    "del": ("monkeypatch", triton(top="del torch.cuda.Event")),
    "class of an object": ("monkeypatch", triton("y.__class__ = torch.nn.Parameter")),
    "tensor subclass": ("tensor-subclass", triton(top="class Lazy(torch.Tensor): ...")),
    "parameter subclass": ("tensor-subclass", triton(top="class Lazy(nn.Parameter): ...")),
    "make_subclass": ("tensor-subclass", triton("torch.Tensor._make_subclass(torch.Tensor, y)")),
    "torch_function": ("tensor-subclass", triton(top="class A:\n  def __torch_function__(self, *a): ...")),
    "bytes": ("binary", triton(top=f"CUBIN = {b'ELF' * 2000!r}")),
    "base64": ("binary", triton(top=f"CUBIN = {'QUJD' * 2000!r}")),
    # Kernels
    "plain torch": ("kernel-missing", model("class ModelNew(nn.Module):", "def forward(self, x): return x.exp()")),
    "unlaunched": ("kernel-unused", triton().replace("double[(", "print((").replace(",)](", ",), ")),
    "launched elsewhere": (
        "kernel-unused",
        triton(top="def never(x):\n    double[(1,)](x, x, 1, BLOCK=1)").replace("double[(triton", "print[(triton"),
    ),
    # PyTorch compute in forward
    "torch.matmul": ("torch-compute", triton("y = torch.matmul(x, x)")),
    "from torch import": ("torch-compute", triton(top="from torch import softmax as s", forward="y = s(x, 1)")),
    "in place": ("torch-compute", triton("torch.relu_(y)")),
    "out variant": ("torch-compute", triton("torch.mm(x, x, out=y)")),
    "F": ("torch-compute", triton("y = F.softmax(x, dim=-1)")),
    "torch.nn.functional": ("torch-compute", triton("y = torch.nn.functional.gelu(x)")),
    "linalg": ("torch-compute", triton("y = torch.linalg.norm(x)")),
    "operator": ("torch-compute", triton("y = x @ x")),
    "method": ("torch-compute", triton("y = x.softmax(-1)")),
    "method of a view": ("torch-compute", triton("y = x.view(-1).contiguous().sum()")),
    "method of a local": ("torch-compute", triton("z = x.float()\nw = z.t()\ny = w.mm(z)")),
    "method of the output": ("torch-compute", triton("y = y.relu_()")),
    "method of a weight": (
        "torch-compute",
        triton(init="self.w = nn.Parameter(torch.ones(3))", forward="y = self.w.mul(x)"),
    ),
    "unbound method": ("torch-compute", triton("y = torch.Tensor.sum(x)")),
    "layer": ("torch-compute", triton(init="self.conv = nn.Conv2d(3, 3, 3)", forward="y = self.conv(x)")),
    "layer's forward": ("torch-compute", triton(init="self.f = nn.Linear(3, 3)", forward="y = self.f.forward(x)")),
    "sequential": (
        "torch-compute",
        triton(init="self.net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())", forward="y = self.net(x)"),
    ),
    "layer made on the spot": ("torch-compute", triton("y = nn.ReLU()(x)")),
    "function in an attribute": ("torch-compute", triton(init="self.act = F.relu", forward="y = self.act(x)")),
    "in a helper": ("torch-compute", triton(top="def f(t):\n  return torch.exp(t)", forward="y = f(x)")),
    "in a helper's helper": (
        "torch-compute",
        triton(
            top="def a(t):\n    return b(t)\ndef b(t):\n    return t.contiguous().exp()",
            forward="y = a(x)",
        ),
    ),
    "in a nested function": ("torch-compute", triton("def go(t):\n    return torch.exp(t)\ny = go(x)")),
    "in a lambda": ("torch-compute", triton("y = (lambda t: torch.exp(t))(x)")),
    "in a submodule": (
        "torch-compute",
        triton(
            top="class Block(nn.Module):\n  def forward(self, x): return torch.exp(x)",
            init="self.block = Block()",
            forward="y = self.block(x)",
        ),
    ),
    "in an autograd function": (
        "torch-compute",
        triton(
            top="class Fn(torch.autograd.Function):\n  @staticmethod\n  def forward(ctx, x): return torch.exp(x)",
            forward="y = Fn.apply(x)",
        ),
    ),
    "in a base": (
        "torch-compute",
        triton(top="class Base(nn.Module):\n  def forward(self, x): torch.exp(x)", forward="super().forward(x)")
        .replace("ModelNew(nn.Module)", "ModelNew(Base)"),
    ),
    "except": ("torch-compute", triton("try:\n    pass\nexcept Exception:\n    y = torch.exp(x)")),
    "dead branch": ("torch-compute", triton("if x.shape[0] == 7:\n    y = torch.exp(x)")),
    "numpy": ("torch-compute", triton("y = torch.from_numpy(np.matmul(x.numpy(), x.numpy()))")),
    "numpy view": ("torch-compute", triton("z = x.detach().numpy()")),
}  # fmt: skip

REJECTED_CUDA = {
    "no load_inline": ("kernel-missing", model("class ModelNew(nn.Module):")),
    "no __global__": ("kernel-missing", inline().replace("__global__ ", "")),
    "no cuda_sources": ("kernel-missing", inline(argument="extra_sources")),
    "unused module": ("kernel-unused", inline(forward="x")),
    "at::matmul": ("native-compute", inline("y = at::matmul(x, x);")),
    "torch::softmax": ("native-compute", inline("y = torch :: softmax(x, 1);")),
    "global scope": ("native-compute", inline("y = ::at::relu(x);")),
    "out variant": ("native-compute", inline("at::mm_out(y, x, x);")),
    "backend namespace": ("native-compute", inline("y = at::cuda::mm(x, x);")),
    "at::native": ("native-compute", inline("y = at::native::gelu(x);")),
    "functional": ("native-compute", inline("y = torch::nn::functional::relu(x);")),
    "using": ("native-compute", inline(top="using at::bmm;")),
    "linalg": ("native-compute", inline("y = at::linalg_norm(x);")),
    "method": ("native-compute", inline("y = x.matmul(x);")),
    "after a comment": ("native-compute", inline("/* ok */ y = at::matmul(x, x); // fine")),
    "after a raw string": ("native-compute", inline('auto s = R"x(")x"; y = at::matmul(x, x); // "')),
    "after a digit separator": ("native-compute", inline("int n = 1'000; y = at::matmul(x, x); char c = 'a';")),
    "exclude guard": (
        "native-dispatch",
        inline("c10::impl::ExcludeDispatchKeyGuard g(c10::DispatchKey::Python);"),
    ),
    "below autograd": ("native-dispatch", inline("at::AutoDispatchBelowADInplaceOrView g;")),
    "dispatcher": ("native-dispatch", inline("c10::Dispatcher::singleton();")),
    "cublas": ("native-library", inline(top="#include <cublas_v2.h>\nstatic cublasHandle_t h;")),
    "cublas call": ("native-library", inline("cublasSgemm(h, a, b, m, n, k, &f, x, m, x, k, &f, x, m);")),
    "cudnn": ("native-library", inline("cudnnConvolutionForward(h);")),
    "torch's handle": ("native-library", inline("auto h = at::cuda::getCurrentCUDABlasHandle();")),
    "cutlass": ("native-library", inline(top="using Gemm = cutlass::gemm::device::Gemm<float>;")),
    "cub": ("native-library", inline("cub::DeviceReduce::Sum(nullptr, n, x, y, 1);")),
    "thrust": ("native-library", inline("thrust::sort_by_key(x, x, y);")),
    "link flag": ("native-library", inline(extra='extra_ldflags=["-lcublas"]')),
    "link flags in a variable": ("native-library", inline() + '\nFLAGS = ["-O3", "-L/usr/lib -lcudnn"]\n'),
    "dlopen": ("native-system", inline('dlopen("libcublas.so", 1);')),
    "system": ("native-system", inline('std::system("true");')),
    "cubin": ("native-system", inline("cuModuleLoadData(&m, image);")),
    "python": ("native-python", inline('py::module_::import("torch").attr("relu")(x);')),
}

CPP = inline(argument="functions")
REJECTED_CPP = {
    "torch": ("kernel-missing", model("class ModelNew(nn.Module):", "def forward(self, x): return torch.relu(x)")),
    "backend namespace": ("native-compute", inline("y = at::cpu::mm(x, x);", argument="functions")),
    "blas": ("native-library", inline("cblas_sgemm(0);", argument="functions")),
    "joined": ("native-compute", CPP + '\nSRC = "#include <a>\\n" + "x = at::" + "mm(a, b);"\n'),
    "f-string": ("native-compute", CPP + '\nSRC = f"#include <a>\\n{ext} = torch::exp(a);"\n'),
}  # fmt: skip

CASES = [
    pytest.param(language, rule, code, id=f"{language}-{name}")
    for language, table in (("triton", REJECTED), ("cuda", REJECTED_CUDA), ("cpp", REJECTED_CPP))
    for name, (rule, code) in table.items()
]


def test_the_templates_themselves_pass() -> None:
    assert check(triton(), "triton", LIMIT) is None
    assert check(inline(), "cuda", LIMIT) is None
    assert check(CPP, "cpp", LIMIT) is None


@pytest.mark.parametrize(("language", "rule", "code"), CASES)
def test_rejected(language: str, rule: str, code: str) -> None:
    outcome = check(code, language, LIMIT)  # type: ignore[arg-type]
    assert isinstance(outcome, Rejected)
    assert outcome.rule == rule, outcome.message
    assert 20 < len(outcome.message) < 600


def test_message_has_the_submissions_own_line() -> None:
    code = triton("y = torch.exp(x)\ny = torch.exp(y)")
    outcome = check(code, "triton", LIMIT)
    assert isinstance(outcome, Rejected)
    line = next(n for n, text in enumerate(code.split("\n"), 1) if "torch.exp" in text)
    assert outcome.message.startswith(f"line {line}: `torch.exp`")
    assert "\n    y = torch.exp(x)\n" in outcome.message
    assert outcome.message.endswith(f"also on line {line + 1}")


def test_message_has_the_line_inside_a_native_string() -> None:
    code = inline("y = at::matmul(x, x);")
    outcome = check(code, "cuda", LIMIT)
    assert isinstance(outcome, Rejected)
    line = next(n for n, text in enumerate(code.split("\n"), 1) if "at::matmul" in text)
    assert outcome.message.startswith(f"line {line}: `at::matmul`")
    assert "y = at::matmul(x, x);" in outcome.message


def test_a_long_offending_line_is_trimmed() -> None:
    outcome = check(triton(f"y = torch.exp(x)  # {'long ' * 400}"), "triton", LIMIT)
    assert isinstance(outcome, Rejected)
    assert len(outcome.message) < 400


@pytest.mark.parametrize(
    ("code", "line", "word"),
    [
        ("class ModelNew(:\n    pass\n", 1, "^"),
        ("import torch\n\ndef f():\nreturn 1\n", 4, "IndentationError"),
        ("x = 1\ny = (2\n", 2, "never closed"),
        (f"x = {'9' * 5000}", 1, "4300"),
        ("x = 1\ny = '" + "a" * 5000, 2, "unterminated"),
    ],
)
def test_syntax_errors_fail_the_build(code: str, line: int, word: str) -> None:
    outcome = check(code, "triton", LIMIT)
    assert isinstance(outcome, BuildFailed)
    assert f"line {line}" in outcome.message
    assert word in outcome.message
    assert len(outcome.message) < 500


def test_the_caret_points_at_the_fault() -> None:
    outcome = check("def f():\n    return a b\n", "triton", LIMIT)
    assert isinstance(outcome, BuildFailed)
    _, text, caret = outcome.message.split("\n")
    assert text.strip() == "return a b"
    assert text[caret.index("^")] == "b"


HOSTILE = {
    "nul": "x = 1\0",
    "surrogate": "x = '\ud800'",
    "minus": "x = " + "-" * 100_000 + "1",
    "not": "not " * 50_000 + "1",
    "plus": "x = 1" + " + 1" * 60_000,
    "attributes": "x = a" + ".b" * 100_000,
    "short attributes": "import torch\n" + "x = torch" + ".nn" * 900,
    "calls": "a" + "()" * 90_000,
    "subscripts": "a" + "[0]" * 80_000,
    "brackets": "(" * 100_000,
    "balanced": "(" * 100 + "1" + ")" * 100,
    "lambdas": "lambda: " * 20_000 + "1",
    "elif": "if 1: pass\n" + "elif 1: pass\n" * 15_000,
    "indentation": "".join(" " * i + "if 1:\n" for i in range(300)),
    "strings": "x = '" + "a" * 200_000 + "'",
    "joined strings": "x = '#include'" + " + 'a'" * 2_900,
    "alias loop": "a = b\nb = a\na.x = 1\neval = eval\neval('1')",
    "decorators": "@a\n" * 50_000 + "def f(): pass",
    "class cycle": "class ModelNew(A): pass\nclass A(ModelNew): pass\n",
    "own base": "class ModelNew(ModelNew): pass\n",
    "mutual calls": triton("y = a(x)", top="def a(x): return b(x)\ndef b(x): return a(x)"),
    "many bases": triton("self.x\n" * 5000, top="".join(f"class A{i}: 0\n" for i in range(4000))).replace(
        "ModelNew(nn.Module)", f"ModelNew(nn.Module, {', '.join(f'A{i}' for i in range(4000))})"
    ),
    "many methods": triton("self.f0()")
    + "".join(f"    def f{i}(self): self.a{i} = 1; self.f{i + 1}()\n" for i in range(4000)),
    "many classes": triton(
        "".join(f"A{i}.f0\n" for i in range(3000)),
        top="class Base:\n"
        + "".join(f" def f{i}(self): self.f{i + 1}()\n" for i in range(2000))
        + "".join(f"class A{i}(Base): 0\n" for i in range(3000)),
    ),
    "many names": f"x = [{', '.join(f'a{i}' for i in range(30_000))}]\n" + triton(),
    "many hits": "S = '''#include <a>\n" + "at::mm(a)\n" * 20_000 + "'''\n" + triton(),
    "carriage returns": "x = 1\r" * 30_000,
    "form feeds": "\f" * 100_000 + "x",
    "bidi": "x = '\u202e'\n" * 10_000,
    "emoji names": "\U0001f600 = 1",
    "not a string key": "getattr(torch, 1)",
    "native nesting": f"S = '''#include <a>\n{'/*' * 50_000}{'R' + chr(34) + '(' * 1000}'''",
    "native quotes": "S = '''#include <a>\n" + "\"\\'" * 50_000 + "'''",
    "native includes": "S = '''" + "#include <" * 25_000 + "'''",
    "native colons": "S = '''#include <a>\n" + "at::" * 50_000 + "'''",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(20)
def test_hostile_text_is_answered(name: str) -> None:
    for language in ("triton", "cuda"):
        outcome = check(HOSTILE[name], language, LIMIT)  # type: ignore[arg-type]
        assert outcome is None or isinstance(outcome, (Rejected, BuildFailed))
        if outcome is not None:
            assert len(outcome.message.encode()) < 1000


@pytest.mark.parametrize(
    ("name", "rule"),
    [("nul", "encoding"), ("surrogate", "encoding"), ("minus", "nesting"), ("attributes", "nesting")],
)
def test_hostile_text_has_its_rule(name: str, rule: str) -> None:
    outcome = check(HOSTILE[name], "triton", LIMIT)
    assert isinstance(outcome, Rejected)
    assert outcome.rule == rule


def test_size_counts_bytes() -> None:
    outcome = check("# " + "ä" * 600, "triton", 1024)
    assert isinstance(outcome, Rejected)
    assert outcome.rule == "size"
    assert "1202" in outcome.message
    assert "1024" in outcome.message
