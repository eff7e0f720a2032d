"""`eval_results.json` in KernelBench's format: problem number to a list of one entry for each sample.

An entry has `sample_id`, `compiled`, `correctness`, `metadata`, `runtime` (ms, -1 where there is none) and
`runtime_stats`. What the format has no place for is in `metadata["kernel_env"]`. Entries of others are kept as
they are. `runtime`, and `mean` with it, is the median of the blocks' medians: a mean of single calls could be
pulled by what a candidate claims of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .attempt import NUMBERS, TEXTS, Attempt, finite, from_fields
from .folder import Sample, write_whole

OWN = "kernel_env"
UNMEASURED = -1.0
FAULTS = ("compilation_error", "runtime_error", "correctness_issue")
_NUMBER = re.compile(r"\d{1,9}")
_CAP = 4000

Entry = dict[str, Any]


class ResultsError(RuntimeError):
    """A results file is not what it should be; the text names it and what is wrong."""


class Results:
    """One results file, of one level. Nothing is written before `save`."""

    def __init__(self, file: Path, level: int) -> None:
        """Raises `ResultsError` where the file is there but not in the format."""
        self.file, self.level = file, level
        self._entries = _read(file) if file.exists() else {}
        self.changed = False

    def find(self, sample: Sample) -> Entry | None:
        entries = self._entries.get(sample.problem, [])
        return next((entry for entry in entries if entry["sample_id"] == sample.number), None)

    def put(self, attempt: Attempt) -> None:
        """In the place of an earlier entry of the same sample."""
        entries = self._entries.setdefault(attempt.problem, [])
        entries[:] = [entry for entry in entries if entry["sample_id"] != attempt.number] + [entry_of(attempt)]
        entries.sort(key=lambda entry: int(entry["sample_id"]))
        self.changed = True

    def save(self) -> None:
        """Raises OSError."""
        if self.changed:
            ordered = {str(problem): self._entries[problem] for problem in sorted(self._entries)}
            write_whole(self.file, json.dumps(ordered, indent=4))
            self.changed = False

    def attempts(self) -> Iterator[Attempt]:
        for problem, entries in self._entries.items():
            for entry in entries:
                yield attempt_of(self.level, problem, entry)


def entry_of(attempt: Attempt) -> Entry:
    """An attempt in KernelBench's form."""
    own = {name: getattr(attempt, name) for name in (*TEXTS, *NUMBERS, "outcome", "samples", "message", "time")}
    own["message"] = own["message"][:_CAP]
    return {
        "sample_id": attempt.number,
        "compiled": attempt.compiled,
        "correctness": attempt.correct,
        "metadata": {
            "hardware": attempt.hardware,
            "device": attempt.device,
            **_fault(attempt),
            OWN: {name: value for name, value in own.items() if value not in (None, "")},
        },
        "runtime": UNMEASURED if attempt.runtime_ms is None else attempt.runtime_ms,
        "runtime_stats": _stats(attempt),
    }


def attempt_of(level: int, problem: int, entry: Mapping[str, Any]) -> Attempt:
    """An entry of ours or of KernelBench's own evaluation."""
    metadata = entry["metadata"]
    own = metadata.get(OWN)
    if isinstance(own, dict) and own.get("task_id"):
        found = from_fields(own, entry["sample_id"])
    else:
        found = _foreign(level, problem, entry)
    runtime = finite(entry["runtime"])
    return replace(
        found,
        level=level,
        problem=problem,
        compiled=entry["compiled"],
        correct=entry["correctness"],
        hardware=str(metadata.get("hardware", "")),
        device=str(metadata.get("device", "")),
        runtime_ms=runtime if runtime is not None and runtime > 0.0 else None,
    )


def _foreign(level: int, problem: int, entry: Mapping[str, Any]) -> Attempt:
    stage = "passed" if entry["correctness"] else "correctness" if entry["compiled"] else "compile"
    told = (entry["metadata"].get(kind) for kind in FAULTS)
    return Attempt(
        level=level,
        problem=problem,
        number=entry["sample_id"],
        compiled=entry["compiled"],
        correct=entry["correctness"],
        stage=stage,
        message=next((str(text)[:_CAP] for text in told if text), ""),
    )


def _fault(attempt: Attempt) -> dict[str, str]:
    """Under the names that KernelBench's evaluation uses."""
    if attempt.correct:
        return {}
    if not attempt.compiled:
        kind = FAULTS[0]
    else:
        kind = FAULTS[2] if attempt.outcome in ("wrong_output", "impossible_timing") else FAULTS[1]
    return {kind: attempt.message[:_CAP], f"{kind}_name": attempt.outcome}


def _stats(attempt: Attempt) -> dict[str, Any]:
    if attempt.runtime_ms is None:
        return {}
    stats = {
        "mean": attempt.runtime_ms,
        "std": attempt.std_ms,
        "min": attempt.min_ms,
        "max": attempt.max_ms,
        "num_trials": attempt.samples,
        "hardware": attempt.hardware,
        "device": attempt.device,
    }
    return {name: value for name, value in stats.items() if value is not None}


def _read(file: Path) -> dict[int, list[Entry]]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{file} cannot be read: {error}") from error
    if not isinstance(content, dict) or not all(_NUMBER.fullmatch(key) for key in content):
        raise ResultsError(f"{file} is no map from problem numbers to lists of results")
    return {int(problem): _entries(file, problem, entries) for problem, entries in content.items()}


def _entries(file: Path, problem: str, entries: object) -> list[Entry]:
    # KernelBench wrote one entry a problem, without a list, before it had several samples.
    listed = [{"sample_id": 0, **entries}] if isinstance(entries, dict) else entries
    if not isinstance(listed, list):
        raise ResultsError(f"{file}: problem {problem} has no list of results")
    for entry in listed:
        fit = (
            isinstance(entry, dict)
            and type(entry.get("sample_id")) is int
            and isinstance(entry.get("compiled"), bool)
            and isinstance(entry.get("correctness"), bool)
        )
        if not fit:
            raise ResultsError(f"{file}: a result of problem {problem} lacks sample_id, compiled or correctness")
        entry["metadata"] = entry.get("metadata") or {}
        entry.setdefault("runtime", UNMEASURED)
        entry.setdefault("runtime_stats", {})
    if len({entry["sample_id"] for entry in listed}) != len(listed):
        raise ResultsError(f"{file}: problem {problem} has two results of one sample; remove one")
    return listed
