"""The layers of the sandbox by name, and what is known of each: active, unavailable (why) or off.

`Plan` is what a worker has decided for its candidates; it travels with every fork. A layer that was found active
and fails later ends the candidate before it has read anything of the submission.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Mode = Literal["auto", "strict", "off"]
State = Literal["active", "unavailable", "off"]

LAYERS = {
    "uid": "a user id of the submission's own",
    "privileges": "no capability left, none to be gained",
    "limits": "processes, file size, open files, no core dumps, first to go where memory runs out",
    "environment": "rebuilt from an allow-list",
    "scratch": "a private folder, removed afterwards",
    "death_signal": "the kernel ends a candidate with what forked it",
    "cleanup": "ended by group, by descent and by user, and seen to be gone",
    "memory": "memory and environment of the server's processes are closed",
    "landlock": "the system is read-only, everything else closed",
    "landlock_tcp": "TCP is refused",
    "landlock_scopes": "signals and abstract sockets to others are refused",
    "provenance": "the kernels that a submission launches are known by name",
    "seccomp": "sockets but local ones, tracing, mounts and other large interfaces are refused",
}
NOT_REQUIRED = {"landlock_tcp", "landlock_scopes"}
"""Newer kernels only; seccomp refuses every network, and an own user id every signal to others."""
ON_CUDA = {"provenance"}
"""What only a CUDA device can have."""
SWITCHED_OFF = {"uid", "privileges", "memory", "landlock", "landlock_tcp", "landlock_scopes", "seccomp"}
"""By the mode `off`; the others are how candidates are run at all."""


@dataclass(frozen=True)
class Layer:
    state: State
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """What a child gives up; `uid` 0 leaves it our user. `helper` is the id that ends `uid`'s processes."""

    confined: bool = False
    uid: int = 0
    helper: int = 0
    files: bool = False
    scopes: bool = False
    seccomp: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    protected: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Plan:
        return cls(**values | {name: tuple(values[name]) for name in ("read", "write", "protected")})


@dataclass
class Report:
    """Every layer's state, in the order of `LAYERS`."""

    layers: dict[str, Layer] = field(default_factory=dict)

    def set(self, name: str, why: str | None) -> None:
        """Active, or unavailable for a reason."""
        self.layers[name] = Layer("active") if why is None else Layer("unavailable", why)

    def active(self, name: str) -> bool:
        return name in self.layers and self.layers[name].state == "active"

    def missing(self, device: Literal["cuda", "cpu"] = "cpu") -> list[str]:
        """Required layers that are not active, each with its reason."""
        spared = NOT_REQUIRED if device == "cuda" else NOT_REQUIRED | ON_CUDA
        wanted = [name for name in LAYERS if name not in spared and not self.active(name)]
        return [f"{name} ({self.layers[name].why or 'off'})" for name in wanted if name in self.layers]

    def json(self) -> dict[str, dict[str, str]]:
        return {name: _told(self.layers[name]) for name in LAYERS if name in self.layers}

    @classmethod
    def parse(cls, values: dict[str, dict[str, str]]) -> Report:
        return cls({name: Layer(**value) for name, value in values.items()})  # type: ignore[arg-type]


def _told(layer: Layer) -> dict[str, str]:
    return {"state": layer.state, "why": layer.why} if layer.why else {"state": layer.state}


def weakest(reports: Iterable[dict[str, dict[str, str]]]) -> dict[str, dict[str, str]]:
    """Of several devices: a layer counts as active where it is on all of them."""
    told: dict[str, dict[str, str]] = {}
    for report in reports:
        for name, layer in report.items():
            if name not in told or told[name]["state"] == "active":
                told[name] = layer
    return told
