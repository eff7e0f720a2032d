"""CUDA's libdevice in Triton's interpreter, which knows of none: the usual functions of floating point, by numpy.

Without this a call such as `libdevice.tanh(x)` is None there; in kernels that Helion writes `exp` is one. Bits and
integers, and what numpy has no word for, stay as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

_SAME = """
exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh floor ceil trunc rint fmod hypot copysign
fmax fmin
"""
_OTHERS: dict[str, Callable[..., Any]] = {
    "abs": numpy.abs,
    "fabs": numpy.abs,
    "acos": numpy.arccos,
    "acosh": numpy.arccosh,
    "asin": numpy.arcsin,
    "asinh": numpy.arcsinh,
    "atan": numpy.arctan,
    "atan2": numpy.arctan2,
    "atanh": numpy.arctanh,
    "erf": numpy.vectorize(math.erf, otypes=[numpy.float64]),
    "erfc": numpy.vectorize(math.erfc, otypes=[numpy.float64]),
    "lgamma": numpy.vectorize(math.lgamma, otypes=[numpy.float64]),
    "nearbyint": numpy.rint,
    "pow": numpy.power,
    "rsqrt": lambda x: 1 / numpy.sqrt(x),
}
_TESTS: dict[str, Callable[..., Any]] = {"isnan": numpy.isnan, "isinf": numpy.isinf}


def fill() -> None:
    """To be called once, before a kernel is interpreted."""
    from triton.language import int32
    from triton.language.extra import libdevice

    named = {**{name: getattr(numpy, name) for name in _SAME.split()}, **_OTHERS}
    for name, function in named.items():
        setattr(libdevice, name, _interpreted(function))
    for name, function in _TESTS.items():
        setattr(libdevice, name, _interpreted(function, int32))


def _interpreted(function: Callable[..., Any], dtype: Any = None) -> Callable[..., Any]:
    """`function` on blocks and scalars; the result has the first argument's type of element, or `dtype`."""
    from triton.language import block_type, tensor
    from triton.runtime.interpreter import TensorHandle

    def call(*arguments: Any, **_: Any) -> Any:
        first = next(argument for argument in arguments if isinstance(argument, tensor))
        with numpy.errstate(all="ignore"):
            result = function(*(a.handle.data if isinstance(a, tensor) else a for a in arguments))
        element = dtype or first.dtype
        data = numpy.asarray(result, numpy.int32 if dtype else first.handle.data.dtype)
        kind = block_type(element, list(data.shape)) if first.type.is_block() else element
        return tensor(TensorHandle(data, element), kind)

    return call


def reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction over one dimension, in 32 bits at least."""
    from triton.language import block_type, float32, int32, tensor
    from triton.runtime.interpreter import TensorHandle

    def call(values: Any, dim: Any) -> Any:
        if values.dtype.primitive_bitwidth < 32:
            values = values.to(float32 if values.dtype.is_floating() else int32)
        data = numpy.asarray(function(values.handle.data, axis=int(getattr(dim, "value", dim))))
        kind = block_type(values.dtype, list(data.shape)) if data.ndim else values.dtype
        return tensor(TensorHandle(data, values.dtype), kind)

    return call
