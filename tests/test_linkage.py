"""What a compiled module may import, and how that is read from memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from kernel_env.server import linkage
from kernel_env.server.mapped import mapped

FORBIDDEN = {
    "_ZN2at4_ops6matmul4callERKNS_6TensorES4_": "matmul",
    "_ZN2at4_ops15sum_dim_IntList4callERKNS_6TensorE": "sum_dim_IntList",
    "_ZN2at4_ops5relu_4callERNS_6TensorE": "relu_",
    "_ZN2at4_ops8_softmax10redispatchEN3c1014DispatchKeySetERKNS_6TensorElb": "_softmax",
    "_ZN2at4cuda2mmERKNS_6TensorES3_": "cuda::mm",
    "_ZN2at3cpu2mmERKNS_6TensorES3_": "cpu::mm",
    "_ZN2at6native8add_stubE": "native::add_stub",
    "_ZN2at4cuda24getCurrentCUDABlasHandleEv": "cuBLAS",
    "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE": "nn::LinearImpl",
    "_ZNK3c1010Dispatcher17findSchemaOrThrowEPKcS2_": "findSchemaOrThrow",
    "cublasSgemm_v2": "cublasSgemm_v2",
    "libcudnn.so.9": "libcudnn",
    "libopenblas.so.0": "libopenblas",
    "cblas_sgemm": "cblas_sgemm",
    "sgemm_": "sgemm_",
    "dlsym": "dlsym",
    "PyRun_String": "PyRun_String",
    "cuModuleLoadData": "cuModuleLoadData",
}
ALLOWED = [
    "_ZN2at4_ops10empty_like4callERKNS_6TensorESt8optionalIN3c1010ScalarTypeEE",
    "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEE",
    "_ZN2at4_ops13to_dtype_layout4callERKNS_6TensorE",
    "_ZN2at4_ops5copy_4callERNS_6TensorERKS2_b",
    "_ZN3c104impl23ExcludeDispatchKeyGuardC1ENS_14DispatchKeySetE",
    "_ZN2at4cuda20getCurrentCUDAStreamEa",
    "_ZN2at8internal14set_thread_numEi",
    "_ZN5torch7Library4_defEOSt7variantE",
    "_Z10my_gemm_v2PKfS0_Pf",
    "_ZN3own2at6matmulEv",
    "__cudaRegisterFunction",
    "libcudart.so.12",
    "libtorch_cuda.so",
    "PyEval_SaveThread",
    "filesystem",
]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_computes_elsewhere_is_named(name: str) -> None:
    assert FORBIDDEN[name] in (linkage.problem([*ALLOWED, name]) or "")


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_kernel_needs_passes(name: str) -> None:
    assert linkage.problem([name]) is None


def test_only_tritons_own_launcher_may_load_the_driver() -> None:
    loader = ["dlopen", "dlsym", "cuModuleLoadData"]
    assert linkage.problem([*loader, "PyInit_own_extension"]) is not None
    assert linkage.problem([*loader, "PyInit___triton_launcher"]) is None
    assert linkage.problem([*loader, "PyInit_cuda_utils", "cublasSgemm_v2"]) is not None


def test_a_modules_strings_are_read_from_memory() -> None:
    library = mapped()[str(Path(torch.__file__).resolve().parent / "lib" / "libtorch_python.so")]
    strings = library.strings()
    assert "libtorch_cpu.so" in strings
    assert any(name.startswith("_ZN2at4_ops") for name in strings)
    assert library.is_elf()


def test_what_is_mapped_later_is_seen() -> None:
    before = mapped().keys()
    ctypes.CDLL("libresolv.so.2")
    new = mapped().keys() - before
    assert all("libresolv" in path for path in new)
    assert any("libresolv" in path for path in mapped())
