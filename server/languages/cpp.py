"""C++ for the CPU, compiled by `load_inline` while the submission is imported."""

from __future__ import annotations

from ..checks.kernels import cpp
from . import PROMPTS, Language

LANGUAGE = Language(
    name="cpp",
    title="C++ for the CPU",
    how=(
        "Kernels are functions in a source string that `torch.utils.cpp_extension.load_inline` compiles, called at"
        " the top level of the file."
    ),
    brief="C++ for the CPU, compiled by `torch.utils.cpp_extension.load_inline` at the top level of the file",
    prompt=PROMPTS / "cpp.md",
    rules=(cpp,),
    marks=r"\b(?:load_inline|cpp_sources)\b",
    devices=("cpu",),
    elsewhere="The inputs lie in the memory of a CUDA device, which C++ for the CPU cannot read",
    halves={
        "fp16": " The example is in 32 bits; data are `data_ptr<at::Half>()`.",
        "bf16": " The example is in 32 bits; data are `data_ptr<at::BFloat16>()`.",
    },
)
