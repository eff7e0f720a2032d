"""Triton, compiled on first launch; in its interpreter where there is no CUDA device."""

from __future__ import annotations

from ..checks.kernels import triton
from . import PROMPTS, Language

LANGUAGE = Language(
    name="triton",
    title="Triton",
    how="Kernels are functions decorated with `@triton.jit`, launched in `forward`.",
    brief="Triton kernels (`@triton.jit`), launched in `forward`",
    prompt=PROMPTS / "triton.md",
    rules=(triton,),
    marks=r"^\s*@\s*(?:triton\.)?(?:jit|autotune|heuristics)\b",
    devices=("cuda", "cpu"),
    interpreted=True,
    rehearsed=True,
)
