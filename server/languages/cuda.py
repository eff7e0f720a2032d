"""CUDA C++, compiled by `load_inline` while the submission is imported."""

from __future__ import annotations

from ..checks.kernels import cuda
from . import PROMPTS, Language

LANGUAGE = Language(
    name="cuda",
    title="CUDA C++",
    how=(
        "Kernels are `__global__` functions in a source string that `torch.utils.cpp_extension.load_inline`"
        " compiles, called at the top level of the file."
    ),
    brief="CUDA C++ kernels, compiled by `torch.utils.cpp_extension.load_inline` at the top level of the file",
    prompt=PROMPTS / "cuda.md",
    rules=(cuda,),
    marks=r"\b(?:cuda_sources|__global__)\b",
    elsewhere="There is no CUDA device here: CUDA code cannot be run",
    halves={
        "fp16": " The example is in 32 bits; data are `data_ptr<at::Half>()`, in a kernel `__half`.",
        "bf16": " The example is in 32 bits; data are `data_ptr<at::BFloat16>()`, to kernels `__nv_bfloat16`.",
    },
)
