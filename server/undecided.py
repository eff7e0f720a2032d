"""Tasks on which no input tells a right output from a wrong one, as `kernel-env tasks audit --mutants` found.

Strict checks can't hold a submission for them to anything, so under these they are left out of the splits; they
are played by id, with standard checks. A task file says the same of itself by `EXTRA_CHECKS = {"undecided":
why}`.
"""

from __future__ import annotations

from .extras import extras_of

_ZERO = "its result is zero for all inputs and weights"
_RANDOM = "its result is random: dropout is active"
_BIAS = "its result is its bias for all inputs: the GELU before it is of sums far below zero"
_CLASS = "its result does not depend on the image: attention runs over the batch, on class tokens alone"
NOTES = {
    "level2/36_ConvTranspose2d_Min_Sum_GELU_Add": _BIAS,
    "level2/66_Matmul_Dropout_Softmax": _RANDOM,
    "level2/80_Gemm_Max_Subtract_GELU": _ZERO,
    "level2/83_Conv3d_GroupNorm_Min_Clamp_Dropout": _ZERO,
    "level3/28_VisionTransformer": _CLASS,
}


def undecided(task_id: str, source: str) -> str:
    """Why, or nothing. Raises `ExtrasError`."""
    return extras_of(task_id, source).undecided or NOTES.get(task_id, "")
