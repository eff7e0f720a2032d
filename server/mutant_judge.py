"""The process of an audit of mutants: which checks accept which wrong answers on a task.

`python -m kernel_env.server.mutant_judge FD PARENT DEVICE` serves one task at a time over an inherited socket:
its source in, a row out. Each mutant answers the trials of three rules until the first that refuses it:
`allclose`, five draws of the task's own inputs at a tolerance of 1e-2; `standard` and `strict`, the checks of
those names at that tolerance. Nothing is forked: a mutant is an answer, not a submission.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import hardware, sandbox
from .agreement import deviation
from .calibration import Calibration, Calibrations
from .compare import compare
from .families import Family
from .frames import TRUSTED_CAP, FrameError, Peer
from .mutants import MUTANTS, Trial
from .reference import Reference, TaskFault
from .trials import expected_outputs, planned
from .verify import Verifier

TRIALS = 5
TOLERANCE = 1e-2
SAME = 1e-4

Check = Callable[[Trial, list[torch.Tensor], Family | None], str | None]


@dataclass(frozen=True)
class Rule:
    """One way to judge: on which reference, on which inputs, by which comparison."""

    name: str
    reference: Reference
    families: list[Family | None]
    check: Check


def rows(task_id: str, source: str, device: torch.device) -> dict[str, Any]:
    """What each rule says of each mutant of a task; raises `TaskFault`."""
    started = time.monotonic()
    plain = Reference(task_id, source, device, secrets.randbits(62))

    def draw(gain: float) -> Reference:
        return Reference(task_id, source, device, secrets.randbits(62), True, gain)

    moved, calibration = Calibrations().of(task_id, source, draw)
    rules = [
        Rule("allclose", plain, [None] * TRIALS, _allclose),
        Rule("standard", plain, planned(TRIALS, plain, None), _verified(plain, None)),
        Rule("strict", moved, planned(TRIALS, moved, calibration), _verified(moved, calibration)),
    ]
    found: dict[str, dict[str, Any]] = {name: {} for name in MUTANTS}
    for rule in rules:
        for name, verdict in _judged(rule).items():
            found[name][rule.name] = verdict
    return {
        "note": calibration.note,
        "products": calibration.products,
        "families": [family.name for family in calibration.families],
        "mutants": {name: _summed(verdicts, calibration) for name, verdicts in found.items()},
        "seconds": round(time.monotonic() - started, 3),
    }


def _judged(rule: Rule) -> dict[str, dict[str, Any]]:
    """By mutant: `refused` by what, or its `error` as a share of the output; nothing where it means nothing."""
    verdicts: dict[str, dict[str, Any]] = {name: {} for name in MUTANTS}
    alive = set(MUTANTS)
    for trial, family in _trials(rule):
        for name in sorted(alive):
            answers = MUTANTS[name](trial)
            if answers is None:
                alive.discard(name)
                verdicts[name] = {}
                continue
            problem = rule.check(trial, answers, family)
            if problem is not None:
                alive.discard(name)
                where = family.name if family else "own"
                verdicts[name] = {"refused": f"{where}: {problem}"[:200]}
            else:
                error = max(verdicts[name].get("error", 0.0), _error(answers, trial.expected))
                verdicts[name] = {"error": error}
        if not alive:
            break
    return verdicts


def _trials(rule: Rule) -> Iterator[tuple[Trial, Family | None]]:
    reference = rule.reference
    for family in rule.families:
        previous = expected_outputs(reference, reference.inputs(secrets.randbits(62), family))
        seed = secrets.randbits(62)
        expected = expected_outputs(reference, reference.inputs(seed, family))
        yield Trial(reference, reference.inputs(seed, family), expected, previous), family


def _allclose(trial: Trial, answers: list[torch.Tensor], family: Family | None) -> str | None:
    for got, expected in zip(answers, trial.expected, strict=True):
        mismatch = compare(got, expected, TOLERANCE, TOLERANCE)
        if mismatch is not None:
            return mismatch.text()
    return None


def _verified(reference: Reference, calibration: Calibration | None) -> Check:
    strictly = calibration if calibration and not calibration.note else None
    verifier = Verifier(reference, TOLERANCE, TOLERANCE, strictly)
    return lambda trial, answers, family: verifier.wrong(answers, trial.expected, family, trial.inputs)


def _error(answers: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    reals = [pair for pair in zip(answers, expected, strict=True) if pair[1].dtype.is_floating_point]
    return max((deviation(got, right).total for got, right in reals), default=0.0)


def _summed(verdicts: dict[str, dict[str, Any]], calibration: Calibration) -> dict[str, Any]:
    """`accepted` by rule (None: means nothing for the task), and why strict checks accept it, if they do."""
    summed: dict[str, Any] = {
        "accepted": {rule: "error" in verdict if verdict else None for rule, verdict in verdicts.items()}
    }
    strictly = verdicts["strict"]
    if "refused" in strictly:
        summed["refused"] = strictly["refused"]
    if "error" in strictly:
        summed["error"] = strictly["error"]
        summed["why"] = _why(strictly["error"], calibration)
    return summed


def _why(error: float, calibration: Calibration) -> str:
    if calibration.note:
        return calibration.note
    if error <= SAME:
        return "the same function, within rounding"
    return "no worse than TF32, which the task's products may use" if calibration.products else "unknown"


def serve(peer: Peer, device: torch.device) -> None:
    """One row for each task until the socket closes."""
    while True:
        try:
            task = peer.receive()
        except FrameError:
            return
        peer.send({"row": _answer(task, device)})
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _answer(task: dict[str, str], device: torch.device) -> dict[str, Any]:
    try:
        return rows(task["id"], task["source"], device)
    except TaskFault as fault:
        return {"fault": str(fault)}
    except torch.OutOfMemoryError as error:
        return {"fault": f"out of memory: {error}"[:300]}


def main() -> None:
    peer = Peer(socket.socket(fileno=int(sys.argv[1])), TRUSTED_CAP)
    sandbox.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    device = torch.device(sys.argv[3])
    peer.send({"hello": True, "device": hardware.describe(device).model_dump()})
    serve(peer, device)
    os._exit(0)


if __name__ == "__main__":
    main()
