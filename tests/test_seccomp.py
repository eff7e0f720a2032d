"""The filter's program, run by hand for both machines: what it refuses, and what it lets through."""

from __future__ import annotations

import errno
import socket

import pytest

from kernel_env.server import seccomp

ALLOWED, REFUSED, ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OURS = 4321


def run(machine: str, number: int, arguments: tuple[int, ...] = (), architecture: int | None = None) -> int:
    """The verdict on one call, by the rules of classic BPF."""
    words = {0: number, 4: architecture or ARCHITECTURES[machine]}
    words |= {16 + 8 * at: value & 0xFFFFFFFF for at, value in enumerate(arguments)}
    program, at, accumulator = seccomp.program(machine, [OURS, -1]), 0, 0
    while True:
        code, true, false, value = program[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = words.get(value, 0)
        elif code == 0x05:
            at += value
        else:
            tests = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += true if tests[code] else false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_is_refused_and_what_is_not(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    x86 = column == 0
    calls = [numbers[column] for numbers in seccomp._CALLS.values()]
    assert {run(machine, number) for number in calls if number is not None} == {REFUSED}
    assert run(machine, 435) == ABSENT
    makes_socket, clone, kill, limit = (41, 56, 62, 302) if x86 else (198, 220, 129, 261)
    assert run(machine, makes_socket, (socket.AF_UNIX, 1)) == ALLOWED
    assert run(machine, makes_socket, (socket.AF_INET, 1)) == REFUSED
    assert run(machine, clone, (0x003D0F00,)) == ALLOWED  # a thread
    assert run(machine, clone, (0x10000011,)) == REFUSED  # a user namespace
    for number in (kill, limit):
        assert run(machine, number, (OURS, 9)) == REFUSED
        assert run(machine, number, (-1, 9)) == REFUSED
        assert run(machine, number, (OURS + 1, 9)) == ALLOWED
    renice = 141 if x86 else 140
    assert run(machine, renice, (0, 0, 10)) == ALLOWED
    assert run(machine, renice, (2, 0, 10)) == REFUSED
    assert run(machine, renice, (0, OURS, 10)) == REFUSED
    fcntl, ioctl = (72, 16) if x86 else (25, 29)
    assert run(machine, fcntl, (3, 8, OURS)) == REFUSED
    assert run(machine, fcntl, (3, 1, 0)) == ALLOWED
    assert run(machine, ioctl, (3, 0xC020462A)) == ALLOWED  # the driver's
    assert {run(machine, number) for number in (0, 1, 3, 9)} == {ALLOWED}


def test_other_instruction_sets_are_refused() -> None:
    assert run("x86_64", 0, architecture=0x40000003) == REFUSED
    assert run("x86_64", 0x40000000 | 41) == REFUSED
    assert len(seccomp.program("x86_64", range(64))) < 4096
