"""What a task's matrix products would give with operands in TF32, on any device.

A dispatch mode cuts the operands of matrix products, convolutions, attention and recurrent layers to the 10 bits
of mantissa that tensor cores read of 32-bit numbers. Cutting is what they do where software does not round
before; the error of rounding is smaller. Says also whether there were any such products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_CUT = ~((1 << 13) - 1)
_PRODUCTS = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "linear",
    "convolution",
    "convolution_overrideable",
    "mkldnn_rnn_layer",
    "_cudnn_rnn",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
)
_ATTENTION = "_scaled_dot_product"


class Tf32Products(TorchDispatchMode):
    """`seen`: has there been a product of 32-bit numbers?"""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in _PRODUCTS or name.startswith(_ATTENTION):
            args = tree_map_only(torch.Tensor, self._operand, args)
        return func(*args, **(kwargs or {}))

    def _operand(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.float32:
            return tensor
        self.seen = True
        return cut(tensor)


def cut(tensor: torch.Tensor) -> torch.Tensor:
    """32-bit numbers without the mantissa bits that TF32 lacks."""
    return tensor.contiguous().view(torch.int32).bitwise_and(_CUT).view(torch.float32)
