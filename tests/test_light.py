"""Light builds: what is declared is used, what is not is built as usual, with the usual errors; nothing is shared.

Most of this runs ninja and the compiler over headers of a few lines; one build is over PyTorch's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_env.server import nvcc
from kernel_env.server.light import FOLDER, REFUSED, Light, is_plain
from kernel_env.server.local import visible_gpus

USUAL = "#pragma once\nint known(); int exotic();\n#define USUAL 1\n"
LIGHT = Light({"torch/types.h": "#pragma once\nint known();\n"})
NINJA = """\
cxx = g++
nvcc = g++
cflags = -isystem {include} -fPIC
cuda_cflags = -isystem {include} -fPIC -x c++

rule compile
  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out
  depfile = $out.d
  deps = gcc

rule cuda_compile
  command = $nvcc $cuda_cflags -c $in -o $out

build main.o: compile {source}

default main.o
"""


class Project:
    """A folder as PyTorch prepares it for ninja."""

    def __init__(self, folder: Path, source: str, flags: str = "") -> None:
        self.directory = folder / "build"
        self.directory.mkdir()
        include = folder / "include"
        (include / "torch").mkdir(parents=True)
        (include / "torch" / "types.h").write_text(USUAL)
        self.source = self.directory / "main.cpp"
        self.source.write_text(f"#include <torch/types.h>\n{source}\n")
        self.text = NINJA.format(include=include, source=self.source).replace("-fPIC", f"-fPIC{flags}")
        self.file.write_text(self.text)

    @property
    def file(self) -> Path:
        return self.directory / "build.ninja"

    @property
    def tried(self) -> bool:
        return (self.directory / FOLDER).exists()

    @property
    def refused(self) -> bool:
        return (self.directory / REFUSED).exists()

    def ninja(self) -> str:
        done = subprocess.run(
            ["ninja", "-v"], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stdout)
        return done.stdout

    def build(self) -> str:
        """What ninja printed last."""
        said: list[str] = []
        LIGHT.build(self.directory, lambda: said.append(self.ninja()))
        return said[-1]


Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda *arguments: Project(tmp_path, *arguments)


def test_what_is_declared_is_built_light_and_not_again(make: Make) -> None:
    project = make("#ifdef __cplusplus\nint f() { return known(); }\n#endif")
    assert FOLDER in project.build()
    assert project.tried
    assert not project.refused
    project.file.write_text(project.text)  # as another process that loads the same extension does
    assert "no work to do" in project.build()


def test_what_is_not_declared_is_built_as_usual_and_not_tried_again(make: Make) -> None:
    project = make("int f() { return exotic(); }")
    assert FOLDER not in project.build()
    assert project.refused
    assert project.file.read_text() == project.text
    assert "no work to do" in project.build()


def test_only_what_failed_is_built_as_usual(make: Make) -> None:
    project = make("int f() { return known(); }")
    (project.directory / "cuda.cu").write_text("#include <torch/types.h>\nint g() { return exotic(); }\n")
    project.text = project.text.replace(
        "default main.o", f"build cuda.o: cuda_compile {project.directory}/cuda.cu\n\ndefault main.o cuda.o"
    )
    project.file.write_text(project.text)
    said = project.build()
    assert "main.cpp" not in said
    assert "cuda.cu" in said
    assert FOLDER not in said
    project.file.write_text(project.text)
    assert "no work to do" in project.build()


def test_an_error_is_the_usual_one(make: Make) -> None:
    project = make("\nint f() { return known() + missing; }")
    with pytest.raises(RuntimeError) as usual:
        project.ninja()
    with pytest.raises(RuntimeError) as light:
        project.build()
    assert project.tried
    assert str(light.value) == str(usual.value)
    assert "main.cpp:3:" in str(light.value)


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("#ifdef USUAL\nint f() { return 1; }\n#endif", ""),
        ("int f() { return known(); }", " -I/usr/include"),
        ("int f() { return known(); }", " -include stddef.h"),
        ('#include "main.cpp"', ""),
    ],
    ids=["asks for a macro", "own folder", "own header", "own file"],
)
def test_what_could_tell_the_difference_is_not_tried(make: Make, source: str, flags: str) -> None:
    project = make(source, flags)
    try:
        project.build()
    except RuntimeError:
        assert "main.cpp" in source  # it includes itself
    assert not project.tried


@pytest.mark.parametrize(
    "source",
    [
        "int x = 1;",
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 // TORCH\n#endif",
        "#ifdef _OPENMP\n#endif\n#if 0\n#elif CUDA_VERSION > 12000\n#endif",
        "auto f = [](auto x) { return x; };",
    ],
)
def test_plain_sources(source: str) -> None:
    assert is_plain(source)


@pytest.mark.parametrize(
    "source",
    [
        "#ifdef TORCH_API\n#endif",
        "#  if \\\n defined(AT_DISPATCH_ALL_TYPES)\n#endif",
        "#if __has_include(<torch/nn.h>)\n#endif",
        "template <class T> auto f(T x) -> decltype(x.sum());",
        "template <class T> int f(T x) requires requires { x.sum(); };",
        "template <class T, class = std::void_t<decltype(sum(std::declval<T>()))>> int f();",
    ],
)
def test_sources_that_ask_what_is_declared(source: str) -> None:
    assert not is_plain(source)


SAMPLE = r"""
#include <ATen/Parallel.h>
static torch::Tensor same(const torch::Tensor& x) { return x; }
std::vector<torch::Tensor> f(torch::Tensor x, int64_t n, double s, c10::optional<at::Tensor> y, std::string name) {
  TORCH_CHECK(x.is_contiguous() && !x.is_cuda() && x.dim() == 2, "bad: ", x.scalar_type(), x.device());
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device()).layout(torch::kStrided);
  auto a = torch::empty({n, x.size(-1)}, options), b = torch::zeros_like(x), c = torch::full({n}, s, x.options());
  auto d = torch::ones({2}, torch::kInt64), e = torch::empty_like(x, at::MemoryFormat::Contiguous);
  auto g = at::zeros({3});
  torch::NoGradGuard quiet;
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "f", [&] {
    auto from = x.data_ptr<scalar_t>();
    auto to = x.accessor<scalar_t, 2>();
    at::parallel_for(0, x.numel(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) b.data_ptr<scalar_t>()[i] = from[i] + to[0][0] + (scalar_t)s;
    });
  });
  return {a, b, c, d, e, g, same(x), x.view({-1}), x.transpose(0, 1).contiguous(), y ? *y : x.to(torch::kHalf)};
}
py::dict described(torch::Tensor x) { py::dict d; d["requires_grad"] = x.requires_grad(); return d; }
torch::Tensor grown() { return torch::randn({2}, torch::TensorOptions().requires_grad(true)); }
"""
LOADED = """
import torch
from kernel_env.server import preload
preload.prepare(skip=preload.STEPS)
from torch.utils.cpp_extension import load_inline
from pathlib import Path
built = load_inline("sample", {source!r}, functions=["f", "described", "grown"], build_directory={folder!r})
x = torch.arange(6.0).reshape(2, 3)
a, b, c, d, e, g, same, flat, turned, half = built.f(x, 4, 2.0, None, "name")
assert a.shape == (4, 3) and b.equal(x + 2) and c.equal(torch.full((4,), 2.0)) and d.dtype == torch.int64
assert e.shape == x.shape and g.equal(torch.zeros(3)) and same.equal(x) and flat.equal(x.reshape(-1))
assert turned.equal(x.T) and half.dtype == torch.float16 and built.grown().requires_grad
assert built.described(x) == {{"requires_grad": False}}
try:
    built.f(x[0], 1, 1.0, None, "")
except RuntimeError as error:
    assert "bad: Floatcpu" in str(error), error
else:
    raise AssertionError("not checked")
"""


@pytest.mark.long
def test_what_submissions_use_of_pytorch_is_built_light(tmp_path: Path) -> None:
    _loaded(tmp_path, LOADED, SAMPLE)


def _loaded(tmp_path: Path, text: str, source: str) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    script = text.format(source=source, folder=str(folder))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / FOLDER).exists()
    assert not (folder / REFUSED).exists()


LISTING = """\
#$ PATH={tools}:/usr/bin:/bin
#$ gcc -E x.cu -o host.ii
#$ cudafe++ --orig_src_path_name "/a/x.cu" --gen_module_id_file --module_id_file_name "{folder}/id" host.ii
#$ gcc -E x.cu -o device.ii
#$ cicc device.ii
#$ rm nothing
#$ gcc -c host.cpp -o x.o
"""
TOOLS = {
    "nvcc": '#!/bin/sh\n[ "$1" = --dryrun ] && cat "$0.listing" >&2 && exit\necho "plain $*"; exit 3\n',
    "gcc": '#!/bin/sh\n[ "$1" = -c ] && echo last\nexit 0\n',
    "cudafe++": "#!/bin/sh\nsleep 0.2; echo host; ! [ -e fail ]\n",
    "cicc": "#!/bin/sh\necho device; cat id\n",
}


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A compiler that lists commands in nvcc's form, and stand-ins for them that say who they are."""
    for name, text in TOOLS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "nvcc.listing").write_text(LISTING.format(tools=tmp_path, folder=tmp_path))
    return tmp_path


def compiled(toolkit: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-IS", nvcc.__file__, str(toolkit / "nvcc"), *arguments]
    return subprocess.run(command, cwd=toolkit, capture_output=True, text=True, timeout=60)


def test_passes_say_what_they_have_to_say_in_order(toolkit: Path) -> None:
    done = compiled(toolkit, "-c", "x.cu", "-o", "x.o")
    identifier = nvcc.identifier_of("/a/x.cu")
    assert (done.returncode, done.stdout) == (0, f"host\ndevice\n{identifier}last\n")


def test_where_the_host_fails_the_device_says_nothing(toolkit: Path) -> None:
    (toolkit / "fail").touch()
    done = compiled(toolkit, "-c", "x.cu", "-o", "x.o")
    assert (done.returncode, done.stdout) == (1, "host\n")


def test_a_list_of_another_form_goes_to_the_compiler(toolkit: Path) -> None:
    (toolkit / "nvcc.listing").write_text("#$ gcc -E x.cu\n#$ tileiras x\n")
    done = compiled(toolkit, "-MD", "-MF", "x.d", "-c", "x.cu")
    assert (done.returncode, done.stdout) == (3, "plain -MD -MF x.d -c x.cu\n")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_makes_the_same_of_it(tmp_path: Path) -> None:
    source = tmp_path / "x.cu"
    source.write_text(
        textwrap.dedent("""
        namespace { __global__ void hidden(float* x) { *x = 2; } }
        __global__ void shown(float* x) { *x = 1; }
        void both(float* x) { hidden<<<1, 1>>>(x); shown<<<1, 1>>>(x); }
        """)
    )
    command = ["nvcc", "-std=c++17", "-c", str(source), "-o"]
    subprocess.run([*command, str(tmp_path / "plain.o")], check=True)
    subprocess.run([sys.executable, "-IS", nvcc.__file__, *command, str(tmp_path / "both.o")], check=True)
    names = [_symbols(tmp_path / f"{name}.o") for name in ("plain", "both")]
    assert "(anonymous namespace)::hidden(float*)" in names[0]
    assert names[0] == names[1]


def _symbols(path: Path) -> set[str]:
    done = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=True)
    return {line[19:] for line in done.stdout.splitlines() if "__device_stub__" not in line}


CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>

namespace {
template <typename T>
__global__ void twice(at::PackedTensorAccessor32<T, 1, at::RestrictPtrTraits> x, T* __restrict__ y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < x.size(0)) y[i] = x[i] + x[i];
}
}  // namespace

torch::Tensor f(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda(), "a CUDA tensor, not ", x.device());
  const c10::cuda::OptionalCUDAGuard guard(at::device_of(x));
  auto y = torch::empty_like(x);
  const int threads = 4 * at::cuda::warp_size();
  AT_CUDA_CHECK(cudaGetLastError());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "twice", [&] {
    twice<scalar_t><<<(x.numel() + threads - 1) / threads, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 1, at::RestrictPtrTraits>(), y.mutable_data_ptr<scalar_t>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->multiProcessorCount > 0);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f, py::arg("x")); }
"""
LAUNCHED = """
import torch
from kernel_env.server import preload
preload.prepare(skip=preload.STEPS)
from torch.utils.cpp_extension import load_inline
built = load_inline("sample", "", {source!r}, build_directory={folder!r})
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    x = torch.randn(1000, dtype=dtype, device="cuda")
    assert built.f(x=x).equal(x + x)
"""


@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")
def test_what_kernels_use_of_pytorch_is_built_light(tmp_path: Path) -> None:
    _loaded(tmp_path, LAUNCHED, CUDA)
