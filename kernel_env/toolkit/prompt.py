"""Prompts for models that get one try: zero, one or a few examples, with the hardware and the precision named.

The rules and what counts as right are the server's own words, so a prompt asks for what the evaluator takes. The
examples are this package's; each is a reference with a submission that passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kernel_env.server.config import Precision, Settings
    from kernel_env.server.tasks import Task

EXAMPLES = ("affine_relu", "row_softmax", "linear_gelu")
SHOTS = {"zero": 0, "one": 1, "few": len(EXAMPLES)}
PRECISIONS: dict[Precision, str] = {
    "fp32": "32-bit floating point (fp32)",
    "fp16": "16-bit floating point (fp16)",
    "bf16": "bfloat16 (bf16)",
}


@dataclass(frozen=True)
class Style:
    """`shots` is a key of `SHOTS`; `hardware` a device's name, "" for none; `precision` a key of `PRECISIONS`."""

    language: str = "triton"
    shots: str = "one"
    hardware: str = ""
    precision: Precision | Literal[""] = ""


def prompt(task: Task, style: Style, settings: Settings) -> str:
    """The whole prompt as Markdown."""
    from kernel_env.server import languages
    from kernel_env.server.problem import correctness_text, fenced, rules_text

    language = languages.get(style.language)
    name = language.title
    parts = [
        f"# {task.id} in {name}\n\nWrite `ModelNew`, which does what the PyTorch module `Model` does, faster, with"
        f" kernels in {name}. Answer with one complete Python file in a Markdown code block.",
        f"## The reference\n\n{fenced(task.source)}",
        rules_text(settings).strip(),
        f"## {name}\n\n{language.how}",
        *_examples(style),
        *_hardware(style),
        *_precision(style, settings),
        "## How it is judged\n\n"
        + correctness_text(task, settings, None)
        + "\n- Speed: against the reference in eager PyTorch, side by side on the same inputs.",
    ]
    return "\n\n".join(parts) + "\n"


def _examples(style: Style) -> list[str]:
    from kernel_env.server.problem import fenced

    chosen = [name for name in EXAMPLES if _file(name, style.language).is_file()][: SHOTS[style.shots]]
    texts = [
        f"A reference:\n\n{fenced(example(name, 'reference'))}\n\nA submission for it that passes:\n\n"
        f"{fenced(example(name, style.language))}"
        for name in chosen
    ]
    if not texts:
        return []
    return ["## Example" if len(texts) == 1 else "## Examples", *texts]


@cache
def example(name: str, kind: str) -> str:
    """A file of an example: `reference`, or a language's submission."""
    return _file(name, kind).read_text(encoding="utf-8")


def _file(name: str, kind: str) -> Traversable:
    """A plug-in brings its own; one without examples has prompts without any."""
    from kernel_env.server import languages

    language = languages.registry().get(kind)
    if language is not None and language.examples is not None:
        return language.examples / f"{name}.py"
    return resources.files("kernel_env").joinpath("toolkit", "examples", name, f"{kind}.py")


def _hardware(style: Style) -> list[str]:
    """Peak rates are named where they are known, dense and without sparsity."""
    if not style.hardware:
        return []
    from kernel_env.server.peaks import peak

    text = f"## Hardware\n\nThe submission runs on {style.hardware}."
    rates = peak(style.hardware)
    if rates is not None:
        text += (
            f" Its memory moves {rates.bandwidth:g} GB/s; its peak rates are {rates.tf32:g} TFLOP/s in TF32 and"
            f" {rates.half:g} TFLOP/s in 16 bits with 32-bit accumulation."
        )
    return [text]


def _precision(style: Style, settings: Settings) -> list[str]:
    """The style's, else that of the settings; 32 bits only where a style names them, as tasks are written so."""
    from kernel_env.server.problem import precision_text

    precision = style.precision or settings.precision
    if not style.precision and precision == "fp32":
        return []
    named = f"Inputs, weights and outputs are in {PRECISIONS[precision]}."
    return ["\n\n".join(["## Precision", named, *precision_text(precision, style.language)])]
