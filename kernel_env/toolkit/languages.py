"""The language of a kernel file by what it uses: a guess for files that don't say, never a verdict."""

from __future__ import annotations

import re

LANGUAGES = ("triton", "cuda", "cpp")
AUTO = "auto"

_TRITON = re.compile(r"^\s*@\s*(?:triton\.)?(?:jit|autotune|heuristics)\b", re.MULTILINE)
_CUDA = re.compile(r"\b(?:cuda_sources|__global__)\b")
_CPP = re.compile(r"\b(?:load_inline|cpp_sources)\b")


def language_of(code: str) -> str:
    """`triton` where it can't be told."""
    if _TRITON.search(code):
        return "triton"
    if _CUDA.search(code):
        return "cuda"
    return "cpp" if _CPP.search(code) else "triton"
