"""The families of strict checks: other numbers in the place of a task's own, of its shapes and within its domain.

Numbers are written over what the task's generator drew, so that shapes, strides and dtypes are its own. Runs in
the judge, on its device, under a seed that no candidate learns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .domain import Domain

_SPIKES = 1 / 256
_MOST = 1000.0

FLAT = frozenset({"sparse", "rows", "near_one", "spiked"})
"""Families in which many numbers are equal or close: where one index is asked for, several may be right."""


def changes(family: str, domains: Sequence[Domain], bounded: bool) -> bool:
    """Does the family change anything, and is it allowed? `bounded`: only numbers within the range drawn are."""
    if family == "bounds":
        return any(domain.kind == "integers" for domain in domains)
    if bounded and family != "uneven":
        return False
    return any(domain.kind in ("free", "simplex") for domain in domains)


def vary(family: str, tensors: Sequence[torch.Tensor], domains: Sequence[Domain]) -> None:
    """Write a family's numbers over a task's own. Raises `KeyError` for an unknown family."""
    for tensor, domain in zip(tensors, domains, strict=True):
        if domain.kind == "integers":
            if family == "bounds":
                _bounds(tensor, domain)
        elif domain.kind in ("free", "simplex") and family != "bounds":
            write = _WRITERS[family]
            write(tensor, domain)
            if domain.kind == "simplex":
                tensor.copy_(tensor.float().softmax(-1))
            _restore(tensor, domain)


def _restore(tensor: torch.Tensor, domain: Domain) -> None:
    if domain.form in ("upper", "diagonal"):
        tensor.copy_(tensor.triu())
    if domain.form in ("lower", "diagonal"):
        tensor.copy_(tensor.tril())
    if domain.form == "symmetric":
        tensor.copy_((tensor + tensor.mT) / 2)


def _uniform(low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), device="cpu"))


def _normal(out: torch.Tensor, domain: Domain) -> None:
    """The scale varies between draws, so that one number for all of them is wrong."""
    out.normal_(0.0, 2.0 ** _uniform(-1.0, 1.0))


def _scaled(out: torch.Tensor, domain: Domain) -> None:
    scale = 10.0 ** _uniform(0.7, 1.3)
    out.normal_(_uniform(0.2, 0.6) * scale, scale)


def _heavy(out: torch.Tensor, domain: Domain) -> None:
    out.normal_(0.0, 1.5).exp_().clamp_(max=_MOST)
    out.mul_(torch.randn_like(out)).clamp_(-_MOST, _MOST)


def _spiked(out: torch.Tensor, domain: Domain) -> None:
    share = max(_SPIKES, 1 / out.numel())
    spikes = torch.empty_like(out).uniform_() < share
    out.normal_(0.0, 0.1)
    out.mul_(1.0 + 200.0 * spikes)


def _sparse(out: torch.Tensor, domain: Domain) -> None:
    kept = torch.empty_like(out).uniform_() < 0.1
    out.normal_(0.0, 2.0 ** _uniform(-1.0, 1.0))
    out.mul_(kept)


def _rows(out: torch.Tensor, domain: Domain) -> None:
    out.copy_(torch.empty_like(out[..., :1]).normal_(0.0, 2.0).expand_as(out))


def _uneven(out: torch.Tensor, domain: Domain) -> None:
    """`low + (own - low) * ramp`; the ramp runs over the elements in one direction or the other."""
    start, end = (0.05, 1.0) if _uniform(0.0, 1.0) < 0.5 else (1.0, 0.05)
    for axis, size in enumerate(out.shape):
        if size > 1:
            shape = [size if at == axis else 1 for at in range(out.dim())]
            ramp = torch.linspace(start, end, size, device=out.device, dtype=torch.float32)
            out.sub_(domain.low).mul_(ramp.view(shape).to(out.dtype)).add_(domain.low)


def _near_one(out: torch.Tensor, domain: Domain) -> None:
    out.normal_(1.0, 0.01)


def _bounds(out: torch.Tensor, domain: Domain) -> None:
    high = torch.rand(out.shape, device=out.device) < 0.5
    out.copy_(torch.where(high, int(domain.high), int(domain.low)))


_WRITERS: dict[str, Callable[[torch.Tensor, Domain], None]] = {
    "normal": _normal,
    "scaled": _scaled,
    "heavy": _heavy,
    "spiked": _spiked,
    "sparse": _sparse,
    "rows": _rows,
    "uneven": _uneven,
    "near_one": _near_one,
}
