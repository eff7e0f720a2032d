"""Helion: tiled loops over PyTorch's operators, which it turns into one Triton kernel at the first call."""

from __future__ import annotations

from ..checks.helion import DECORATORS, helion
from . import PROMPTS, Language

LANGUAGE = Language(
    name="helion",
    title="Helion",
    how=(
        "Kernels are functions decorated with `@helion.kernel(config=helion.Config(...))`, with the work inside of"
        " `for ... in hl.tile(...)` loops, called in `forward`."
    ),
    brief="Helion kernels (`@helion.kernel` with a fixed `config`), called in `forward`",
    prompt=PROMPTS / "helion.md",
    rules=(helion,),
    marks=r"^\s*@\s*helion\.(?:kernel|jit)\b",
    decorators=DECORATORS,
    imports=frozenset(("helion",)),
    devices=("cuda", "cpu"),
    interpreted=True,
    package="helion",
    extra="openenv-kernel_env[helion]",
    runtime="kernel_env.server.helion_runtime",
)
