"""Strict checks: what `KERNEL_ENV_CHECKS=strict` adds to a task's own checks, in words and numbers.

Text only, so that the server, which never imports torch, and the judge read the same. Which families a task keeps
the judge finds out by running its reference (`calibration`), so the problem text tells the whole list.
"""

from __future__ import annotations

FAMILIES = {
    "normal": "normal numbers of mean zero",
    "scaled": "normal numbers of another mean and a large scale",
    "heavy": "heavy-tailed numbers",
    "spiked": "small numbers with large ones at random places",
    "sparse": "numbers of which nine in ten are zero",
    "rows": "rows of one constant",
    "uneven": "the task's own numbers, shrunk towards their least more and more along the tensor",
    "near_one": "numbers near one",
    "bounds": "integers at the bounds of their range",
}

OWN_TRIALS = 2
"""Trials on the task's own inputs that are left where further ones take the place of some."""

RESIDUAL, SCALE = 4.0, 2.0
"""Multiples of the reference's own errors that a submission may reach: what no factor explains, and the factor."""

LARGEST_SCALE = 6e-3
"""No factor's share of the allowance is larger, however many layers cut their operands."""

GAIN = 2.0
"""Of the weights of layers where a network would hardly let its input through otherwise."""

ORDER = 3e-5
"""Beside these, as a share of the output's root mean square: for sums in another order, faster exponentials."""

TIES = 0.25
"""For tasks with 16-bit numbers, this share of their spacing at one: numbers near a tie are rounded either way."""

VARIATION = 0.05
"""But `ORDER` counts only up to this share of how much the output varies with the inputs."""

TELLING = 0.25
"""Inputs tell a right output from a replayed one if the allowance is below this share of the variation."""

DISCLOSURE = (
    "Further trials have the same shapes and other numbers: {families}. A task has those of them on which its"
    " reference stays finite; integers, masks, labels, triangular or symmetric matrices and probabilities stay"
    " such, and timing keeps to `get_inputs()`. Parameters that are constant at construction, such as the ones and"
    " zeros of a norm, hold random numbers from their creation on, in `Model` and in `ModelNew`; where a network"
    " would hardly let its input through, its layers draw larger weights. Besides the"
    " tolerance, each output as a whole must agree with the reference to a few times the reference's own rounding"
    " error: {rounding}. For other"
    " orders of summation {order:g} of the output's root mean square is added, or less where the output hardly"
    " varies. Arithmetic in fewer bits fails."
)


_ROUNDING = {
    "fp32": "in 32 bits or, for matrix products, convolutions and attention, with operands in TF32",
    "fp16": "in fp16, sums in 32 bits",
    "bf16": "in bf16, sums in 32 bits",
}


def disclosure(own: frozenset[str] | None = None, precision: str = "fp32") -> str:
    """What a model is told; `own` are the families that a task file limits itself to."""
    families = [text for name, text in FAMILIES.items() if own is None or name in own]
    told = "; ".join(families) or "none"
    return DISCLOSURE.format(families=told, rounding=_ROUNDING[precision], order=ORDER)
