"""What a user names as a run: a run directory, an `eval_results.json`, or a server's event log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import logs
from .attempt import Attempt
from .folder import RESULTS, Sample, kernels, read_text
from .results import Results, ResultsError


class SourceError(RuntimeError):
    """The path is no run; the text says what would be one."""


@dataclass(frozen=True)
class Run:
    """Its attempts, and what a log holds beside them: faults of the environment, lines that can't be read."""

    name: str
    attempts: Sequence[Attempt]
    faults: Sequence[Attempt] = field(default_factory=list)
    unreadable: int = 0


def read(path: Path, level: int | None = None) -> Run:
    """`level` is that of a results file which doesn't say. Raises `SourceError`, `ResultsError`, `LogError`."""
    if path.is_dir():
        return Run(path.resolve().name, _folder(path, level))
    if not path.is_file():
        raise SourceError(f"{path} is not there; name a run directory, an {RESULTS} or an event log")
    if path.suffix == ".json":
        return Run(path.resolve().parent.name, _results(path, level))
    log = logs.read(path)
    return Run(path.stem, log.attempts, log.faults, log.unreadable)


def _folder(folder: Path, level: int | None) -> list[Attempt]:
    texts = kernels(folder)
    levels = {sample.level for sample in texts}
    attempts: list[Attempt] = []
    top = folder / RESULTS
    if top.is_file():
        attempts += _results(top, levels.pop() if level is None and len(levels) == 1 else level)
    for file in sorted(folder.glob(f"level_*/{RESULTS}")):
        number = file.parent.name.removeprefix("level_")
        if number.isdigit():
            attempts += Results(file, int(number)).attempts()
    if not attempts:
        raise SourceError(f"{folder} holds no results; `kernel-env eval-run {folder}` makes them")
    return [_with_code(attempt, texts) for attempt in attempts]


def _with_code(attempt: Attempt, texts: dict[Sample, Path]) -> Attempt:
    """With its prompt, too, where `generate` left it."""
    sample = Sample(attempt.level, attempt.problem, attempt.number)
    file = texts.get(sample)
    if file is None:
        return attempt
    asked = file.with_name(f"{sample.stem}_prompt.txt")
    problem = read_text(asked) if asked.is_file() else ""
    return replace(attempt, code=read_text(file), problem_text=problem)


def _results(file: Path, level: int | None) -> list[Attempt]:
    """The level is the file's own (our entries name their tasks), else the one that is given."""
    from .problems import place

    found = list(Results(file, level or 0).attempts())
    own = {where[0] for attempt in found if (where := place(attempt.task_id))}
    if level is None and len(own) != 1:
        raise ResultsError(f"{file} does not say which level it is of; name it with --level")
    return [replace(attempt, level=level or min(own)) for attempt in found]
