"""What one side of a contest does to shared memory does not reach the other; who has memory, and who lacks it."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernel_env.server import blocks, timing
from kernel_env.server.blocks import Blocks
from kernel_env.server.construct import construct
from kernel_env.server.frames import Peer
from kernel_env.server.judge import Evaluation
from kernel_env.server.laps import Laps
from kernel_env.server.layout import load
from kernel_env.server.link import TwinLink
from kernel_env.server.mailbox import Mailbox
from kernel_env.server.outcome import OutOfMemory
from kernel_env.server.reference import Reference, TaskFault
from kernel_env.server.timing import Contest

HOST = torch.device("cpu")
TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


class Link:
    """Answers every request with what `reply` holds; keeps what it was asked."""

    def __init__(self, **reply: Any) -> None:
        self.asked: list[str] = []
        self._reply = reply

    stage = "timing"

    def greet(self) -> None: ...

    def end(self) -> None: ...

    def kill(self) -> None: ...

    def enter(self, stage: str, limit_s: float) -> None: ...

    def call(self, op: str, fds: object = (), **fields: Any) -> dict[str, Any]:
        self.asked.append(op)
        return self._reply

    def begin(self, op: str, **fields: Any) -> None:
        self.asked.append(op)

    def finish(self) -> dict[str, Any]:
        return self._reply


def mailbox(reference: Reference) -> Mailbox:
    inputs = reference.inputs(1)
    return Mailbox(reference, inputs, reference(inputs))


def test_a_twin_gets_the_weights_whatever_a_candidate_wrote() -> None:
    reference = Reference("user/task", TASK, HOST, 1)
    shared = mailbox(reference)
    for link in (Link(), Link()):
        construct(link, reference, shared, 1.0)  # type: ignore[arg-type]
        for got, expected in zip(
            load(list(shared.state.values()), shared.region), reference.state().values(), strict=True
        ):
            assert torch.equal(got, expected)
        shared.region.data.fill_(255)


@pytest.mark.parametrize("first", ["claim", "reference"])
def test_the_second_side_gets_the_inputs_as_they_were(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sides:
        device = HOST

        def __getattr__(self, name: str) -> Any:
            def act(*_: object) -> Any:
                done.append(name)
                return Laps([1.0], [1.0]) if name in ("claim", "reference") else []

            return act

    done: list[str] = []
    monkeypatch.setattr(timing.secrets, "randbelow", lambda _: int(first == "claim"))
    Contest(Sides())._block(0)  # type: ignore[arg-type]
    sides = [name for name in done if name in ("claim", "restore", "reference")]
    assert sides == [first, "restore", "reference" if first == "claim" else "claim"]


def test_a_twin_takes_its_memory_again_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    gives = [True, False, False, False]
    monkeypatch.setattr(blocks, "settle", lambda *_: gives.pop(0))
    reference = Reference("user/task", TASK, HOST, 1)
    inputs = reference.inputs(1)
    mailbox = Mailbox(reference, inputs, reference(inputs))
    twin, candidate = Link(laps=[], host=[]), Link(laps=[], host=[])
    sides = Blocks(candidate, twin, reference, mailbox, None)  # type: ignore[arg-type]
    sides.claim([])
    assert (twin.asked, candidate.asked) == (["trim"], ["time"])
    sides.reference([])
    assert twin.asked == ["trim", "time", "time"]
    sides.wake([])
    assert twin.asked == ["trim", "time", "time"]


def test_beside_a_candidate_that_lacked_memory_a_twin_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "settle", lambda *_: False)
    monkeypatch.setattr(blocks.hardware, "memory_bytes", lambda _: 0)
    reference = Reference("user/task", TASK, HOST, 1)
    twin, candidate = Link(laps=[], host=[]), Link(laps=[], host=[])
    sides = Blocks(candidate, twin, reference, mailbox(reference), None)  # type: ignore[arg-type]
    assert not sides.give_way()
    sides.device = torch.device("cuda")
    sides.claim([])
    assert twin.asked == []
    assert sides.give_way()
    assert not sides.give_way()
    sides.claim([])
    sides.reference([])
    assert twin.asked == ["trim", "trim", "time", "time"]


@pytest.mark.parametrize(("held", "kind"), [(100 << 30, "out_of_memory"), (10 << 30, "infrastructure")])
@pytest.mark.parametrize("who", ["judge", "twin"])
@pytest.mark.parametrize("early", [False, True])
def test_a_lack_of_memory_is_the_fault_of_who_holds_it(
    early: bool, who: str, held: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack() -> None:
        if who == "judge":
            raise torch.OutOfMemoryError
        with socket.socket() as link:
            raise TwinLink(Peer(link, 0), -1).ended(OutOfMemory(stage="timing", message=""))

    free = [1 << 30, (1 << 30) + held]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free.pop(0), 0))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 4 << 30)
    candidate = Link()
    report = SimpleNamespace(send=lambda message: None)
    given: Any = ({"left_s": 1.0}, candidate, None, None, torch.device("cuda"), report, None)
    evaluation = Evaluation(*given)
    prepared: list[str] = []
    monkeypatch.setattr(evaluation, "_run", lack)
    monkeypatch.setattr(evaluation, "_drawn", lambda: "reference")
    monkeypatch.setattr(evaluation, "_prepare", prepared.append)
    monkeypatch.setattr(evaluation, "_note_memory", lambda: None)
    if not early:
        evaluation._mailbox = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    assert evaluation.run().kind == kind
    assert prepared == (["reference"] if early else [])
    assert not free


def test_what_a_task_s_own_check_raises_is_a_fault_of_the_task() -> None:
    check = "def check_outputs(inputs, outputs):\n    raise ValueError('no')\n"
    extras = 'EXTRA_CHECKS = {"invariant": "something"}\n'
    reference = Reference("user/task", f"{TASK}\n{extras}\n{check}", HOST, 1)
    with pytest.raises(TaskFault, match="no"):
        reference.broken_invariant([], [])


def test_inputs_are_plain_bytes() -> None:
    drawn = "return [torch.randn(4, 8, dtype=torch.complex64).conj()]"
    reference = Reference("user/task", TASK.replace("return [torch.randn(4, 8)]", drawn), HOST, 1)
    (value,) = reference.inputs(1)
    assert not value.is_conj()
