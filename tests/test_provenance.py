"""Whose kernels did the work: decided from records as CUPTI makes them, without a device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernel_env.server.mapped import mapped
from kernel_env.server.origins import Origins, base_name
from kernel_env.server.outcome import Timing
from kernel_env.server.provenance import KernelTime, Record, is_library, is_move, is_own, problem

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>(int)"
)
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<float, 2>(int)"
EXP = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::exp_kernel_cuda(at::TensorIteratorBase&)>(int)"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float> > >(int)"
)
SORT = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<float>(int)"
OWN_SORT = "void cub::CUB_200802_900_NS::DeviceRadixSortOnesweepKernel<float>(int)"
GEMMS = [
    "ampere_sgemm_128x64_nn",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(cutlass_80::Params)",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
    "void gemmSN_NN_kernel<float, 128, 2, 4, 8, 4, 4, false>(float*)",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)",
    "void internal::gemvx::kernel<int, int, float>(float*)",
]
TIMING = Timing(
    runtime_ms=1.0, ref_runtime_ms=1.0, speedup=1.0, low=1.0, high=1.0, samples=9, clock="events", host_ms=0.05
)


def kernel(name: str, ms: float, origin: str = "") -> KernelTime:
    return KernelTime.model_validate({"name": name, "origin": origin, "launches": 1, "ms": ms})


def record(*kernels: KernelTime, rest_ms: float = 0.0, work_ms: float | None = None) -> Record:
    """Of one call."""
    total = sum(k.ms for k in kernels) + rest_ms
    work = total if work_ms is None else work_ms
    return Record(calls=1, complete=True, work_ms=work, busy_ms=work, rest_ms=rest_ms, kernels=list(kernels))


HONEST = {
    "a Triton kernel": [kernel("softmax_kernel", 1.0, "triton")],
    "a module's kernel": [kernel("void own::relu<4>(float*)", 1.0, "extension")],
    "fills, copies, casts": [
        kernel("mine", 0.4, "triton"),
        kernel(FILL, 0.2),
        kernel(CAST, 0.2),
        kernel(CAT, 0.1),
        kernel("Memset (Device)", 0.05),
        kernel("Memcpy DtoD (Device -> Device)", 0.05),
    ],
    "one called like a library's": [
        kernel("my_gemm_splitK(float*)", 1.0, "extension"),
        kernel("sgemm", 1.0, "triton"),
    ],
    "one with a library's parts": [
        kernel("void mine<cub::BlockReduce<float, 256>, cutlass::half_t>(int)", 1.0, "extension")
    ],
    "text compiled at run time": [kernel("my_gemm", 1.0, "text")],
    "a little of unknown origin": [kernel("mine", 0.97, "triton"), kernel("helper", 0.03)],
    "nothing but its own kernel and a great fill": [kernel("mine", 0.001, "triton"), kernel(FILL, 1.0)],
}


@pytest.mark.parametrize("name", HONEST)
def test_the_submissions_own_work_passes(name: str) -> None:
    assert problem(record(*HONEST[name]), TIMING) is None


@pytest.mark.parametrize("name", [EXP, SUM, SORT, *GEMMS])
@pytest.mark.parametrize("share", [0.99, 0.01])
def test_a_librarys_kernel_is_named(name: str, share: float) -> None:
    found = problem(record(kernel("mine", 1 - share, "triton"), kernel(name, share)), TIMING)
    assert found is not None
    assert name[:60] in found


@pytest.mark.parametrize(
    "name",
    [
        EXP,
        OWN_SORT,
        "void cutlass::Kernel2<mine>(int)",
        "void mine::cub::DeviceScanKernel<1>(int)",
        "void thrust::cuda_cub::x<1>(int)",
    ],
)
def test_a_librarys_namespace_is_the_librarys_whoever_compiled_it(name: str) -> None:
    assert is_library(kernel(name, 1.0, "extension"))
    assert not is_own(kernel(name, 1.0, "extension"))


def test_a_name_in_the_text_makes_no_library_the_submissions() -> None:
    assert is_library(kernel("ampere_sgemm_128x64_nn", 1.0, "text"))
    assert not is_own(kernel("ampere_sgemm_128x64_nn", 1.0, "text"))


@pytest.mark.parametrize(
    "name", ["FillFunctor", "mine<at::native::FillFunctor<float> >(int)", "Memset(float*)", EXP]
)
def test_only_pytorchs_moves_are_moves(name: str) -> None:
    assert not is_move(name)


def test_a_decoy_is_not_enough() -> None:
    found = problem(record(kernel("decoy", 0.5, "triton"), kernel("stranger", 0.5)), TIMING)
    assert found is not None
    assert "50%" in found
    assert "stranger" in found


def test_what_is_beyond_the_list_counts_as_strange() -> None:
    assert problem(record(kernel("mine", 0.9, "triton"), rest_ms=0.1), TIMING) is not None


def test_every_call_launches_a_kernel_of_its_own() -> None:
    assert "no kernel" in (problem(record(kernel(FILL, 1.0)), TIMING) or "")
    assert "no kernel" in (problem(record(), TIMING) or "")


def test_other_kernels_than_the_timed_ones_are_noticed() -> None:
    found = problem(record(kernel("mine", 10.0, "triton")), TIMING)
    assert found is not None
    assert "10 ms" in found


def test_work_that_is_not_in_the_record_is_noticed() -> None:
    assert "account" in (problem(record(kernel("mine", 0.05, "triton")), TIMING) or "")


def test_a_host_that_is_slow_explains_a_gap() -> None:
    slow_host = TIMING.model_copy(update={"host_ms": 0.9})
    assert problem(record(kernel("mine", 0.05, "triton")), slow_host) is None


def test_streams_side_by_side_are_no_slower_work() -> None:
    assert problem(record(*[kernel("mine", 1.0, "triton")] * 4, work_ms=1.0), TIMING) is None


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void own::fill<4>(float*, int)", "fill"),
        ("relu_kernel(float const*, float*, long)", "relu_kernel"),
        ("softmax_kernel", "softmax_kernel"),
        ("(anonymous namespace)::k(int)", "k"),
        ("void (anonymous namespace)::k<(anonymous namespace)::F>(int)", "k"),
    ],
)
def test_the_base_of_a_name(name: str, base: str) -> None:
    assert base_name(name) == base


def test_text_tells_an_origin() -> None:
    origins = Origins(["mine", "other"], [], "SOURCE = 'extern \"C\" __global__ void mine(float* x) {}'")
    assert (origins.of("mine"), origins.of("other")) == ("text", "")


def test_a_kernel_is_found_in_the_module_that_holds_its_name() -> None:
    module = mapped()[str(Path(torch.__file__).resolve().parent / "lib" / "libc10.so")]
    mangled = next(text for text in sorted(module.strings()) if text.startswith("_ZN3c105Error"))
    name = torch._C._demangle(mangled)
    origins = Origins([name, "void stranger<4>(float*)"], [module], "")
    assert "(" in name
    assert (origins.of(name), origins.of("void stranger<4>(float*)")) == ("extension", "")
